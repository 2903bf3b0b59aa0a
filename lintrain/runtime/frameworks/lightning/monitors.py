"""Names that callbacks monitor: is one missing because nothing logs it, or because the probe ran only a few
batches?
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

from lintrain.runtime.child.frames import is_users
from lintrain.runtime.frameworks.lightning.facts import logged_names, monitors_of

SETS_UP = re.compile(r"__init__$|configure_|test_|on_test_|predict_|on_predict_")
"""Methods that log nothing during training: those that configure what is monitored, and those of other calls."""


def missing_by_shortening(trainer: Any, error: BaseException, *, has_validated: bool) -> str | None:
    """The monitored name whose absence raised an error, if code that ran might log it later; None if nothing logs
    it.
    """
    logged = logged_names(trainer)
    for name in monitors_of(trainer):
        if name not in logged and name in str(error) and _is_logged_somewhere(trainer, name, has_validated):
            return name
    return None


def _is_logged_somewhere(trainer: Any, name: str, has_validated: bool) -> bool:
    owners = (trainer.lightning_module, *trainer.callbacks)
    for function in (each for owner in owners for each in _functions(owner)):
        if "validation" in function.__name__ and not has_validated:
            continue
        if not SETS_UP.match(function.__name__) and name in texts_of(function.__code__):
            return True
    return False


def _functions(owner: Any) -> Iterator[FunctionType]:
    """The methods that the script's own classes give an object."""
    for base in type(owner).__mro__:
        for value in vars(base).values():
            function = inspect.unwrap(value) if callable(value) else None
            if isinstance(function, FunctionType) and is_users(function.__code__.co_filename):
                yield function


def texts_of(code: CodeType) -> Iterator[str]:
    """The texts that the code of a function holds, with those of the functions inside of it."""
    for constant in code.co_consts:
        if isinstance(constant, str):
            yield constant
        elif isinstance(constant, tuple):  # the keys of a dictionary
            yield from (each for each in constant if isinstance(each, str))  # pyright: ignore[reportUnknownVariableType]
        elif isinstance(constant, CodeType):
            yield from texts_of(constant)
