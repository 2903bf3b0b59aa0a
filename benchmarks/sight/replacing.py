"""Functions of lintrain replaced for a while, so that a benchmark sees what goes through them."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from lintrain.interpreter import invocation
from lintrain.interpreter.core.call import Call
from lintrain.pipeline.values.python import Class, Function, Instance, Unknown, Value

ROWS = frozenset({"__getitem__", "__iter__"})
"""Methods of a data set that give its rows."""


@contextmanager
def replaced(function: Callable[..., object], other: Callable[..., object]) -> Generator[None]:
    """Replace a function in every module of lintrain that has it under a name."""
    modules = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == "lintrain"]
    held = [(module, name) for module in modules for name in _names_of(module, function)]
    for module, name in held:
        setattr(module, name, other)
    try:
        yield
    finally:
        for module, name in held:
            setattr(module, name, function)


def _names_of(module: ModuleType, function: Callable[..., object]) -> list[str]:
    return [name for name, value in vars(module).items() if value is function]


def note_row(items: dict[ast.ClassDef, Value], function: Function, receiver: Value | None, value: Value) -> None:
    """Keep what an own class returns as a row; of several readings, one that is understood."""
    if function.name in ROWS and isinstance(receiver, Instance):
        before = items.get(receiver.cls.node)
        if before is None or isinstance(before, Unknown):
            items[receiver.cls.node] = value


@contextmanager
def watched() -> Generator[dict[ast.ClassDef, Value]]:
    """Keep the rows of the own classes of the scripts that are read meanwhile."""
    items: dict[ast.ClassDef, Value] = {}
    run_function = invocation.run_function

    def run(call: Call, function: Function, receiver: Value | None, owner: Class | None, *rest: Any) -> Value:
        # Any: what a context manager's function is given besides.
        value = run_function(call, function, receiver, owner, *rest)
        note_row(items, function, receiver, value)
        return value

    with replaced(run_function, run):
        yield items
