"""Names that the callbacks of a `fit` watch, beside those that its epochs compute."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from lintrain.runtime.child.frames import is_users
from lintrain.runtime.child.kinds import is_row
from lintrain.runtime.frameworks.keras.keras_run import KerasRun
from lintrain.runtime.frameworks.lightning.monitors import texts_of


def watched_names(run: KerasRun) -> tuple[str, ...]:
    """What the library's callbacks watch; a checkpoint that keeps every epoch watches nothing."""
    watching = [one for one in _callbacks(run) if getattr(one, "save_best_only", True)]
    names = [getattr(one, "monitor", None) for one in watching if not is_own(one)]
    return tuple(dict.fromkeys(name for name in names if isinstance(name, str)))


def may_be_logged(run: KerasRun, name: str) -> bool:
    """Whether a callback of the script's own speaks of a name, so that it may put it into the logs."""
    return any(name in texts_of(function.__code__) for one in _callbacks(run) for function in _own_functions(one))


def is_own(callback: Any) -> bool:
    """Whether the class of a callback is one of the script's own."""
    return any(True for _ in _own_functions(callback))


def _callbacks(run: KerasRun) -> list[Any]:
    given = run.given["callbacks"]
    given = getattr(given, "callbacks", given)
    return list(given) if is_row(given) else [given] if given is not None else []


def _own_functions(callback: Any) -> Iterator[Any]:
    """The methods that the script's own classes give a callback, and functions that it was given."""
    values: list[object] = [value for base in type(callback).__mro__ for value in vars(base).values()]
    own: dict[str, object] = getattr(callback, "__dict__", {})
    for value in (*values, *own.values()):
        function = inspect.unwrap(value) if inspect.isfunction(value) else None
        if function is not None and is_users(function.__code__.co_filename):
            yield function
