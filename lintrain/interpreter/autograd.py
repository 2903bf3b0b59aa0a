"""Where autograd is off, or may be: inside context managers, and in functions that are decorated with them."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from lintrain.interpreter.core import operations
from lintrain.pipeline.values.python import UNKNOWN, Either, Function, Instance, Library, LibraryObject, Unknown, Value
from lintrain.startup.lazy_pattern import lazy_pattern

NO_GRAD = frozenset(
    {"torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad", "torch.autograd.grad_mode.no_grad"}
)

MAY_HOLD_OTHERS = frozenset({"contextlib.ExitStack", "contextlib.AsyncExitStack"})

KEEPS_GRAD = lazy_pattern(r"amp|cast|accumul|sync|device|profil|tqdm|progress|tape|timer|launcher|rank")
"""Names of unknown context managers that leave autograd alone."""

SPEAKS_OF_GRAD = lazy_pattern(r"grad|eval|infer")


def turns_grad_off(manager: Value) -> bool:
    """Whether autograd is off, or may be, inside `with manager`: what is not understood may turn it off."""
    match manager:
        case LibraryObject(path="torch.set_grad_enabled"):
            # `set_grad_enabled(phase == "train")` may go either way, so autograd may be off.
            return operations.truth(manager.arguments.get("0", UNKNOWN)) is not True
        case LibraryObject():
            return manager.path in NO_GRAD or manager.path in MAY_HOLD_OTHERS
        case Either():
            return any(turns_grad_off(option) for option in manager.options)
        case Unknown():
            # An unknown manager may do anything, so events inside it are not certain to build a graph,
            # unless its name tells that it is about something else: `autocast()`, `Timer()`.
            return not KEEPS_GRAD.search(manager.name)
        case Instance():
            # The script's own manager: it can only turn gradients off if its code names them somewhere.
            return manager.cls.has_unknown_base or any("grad" in ast.unparse(own.node) for own in manager.cls.lineage())
        case _:
            return False


def is_without_grad(marks: Sequence[Value]) -> bool:
    """Whether a decorator runs the function with autograd off: `@torch.no_grad()`, also without its brackets."""
    return any(_decorates_off(each) for each in marks)


def _decorates_off(decorator: Value) -> bool:
    match decorator:
        case Library():
            return decorator.path in NO_GRAD
        case Function() | Unknown():
            return SPEAKS_OF_GRAD.search(decorator.name) is not None
        case _:
            return turns_grad_off(decorator)
