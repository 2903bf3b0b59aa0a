"""Where autograd is off, or may be, and what code changes in place where it is on.

It is off inside context managers, and in functions that are decorated with them.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from lintrain.interpreter.core import operations
from lintrain.interpreter.core.reader import Reader
from lintrain.model.location import Location
from lintrain.pipeline.modules import weight_of
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.model import Parameter, Tensor
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Constant,
    Either,
    Function,
    Instance,
    Library,
    LibraryObject,
    Unknown,
    Value,
)
from lintrain.pipeline.values.tensors import (
    CHANGED_IN_PLACE,
)
from lintrain.source.nodes import unparse
from lintrain.source.parsing import expression_of
from lintrain.startup.lazy_pattern import lazy_pattern

NO_GRAD = frozenset(
    {"torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad", "torch.autograd.grad_mode.no_grad"}
)

MAY_HOLD_OTHERS = frozenset({"contextlib.ExitStack", "contextlib.AsyncExitStack"})

KEEPS_GRAD = lazy_pattern(r"amp|cast|accumul|sync|device|profil|tqdm|progress|tape|timer|launcher|rank")
"""Names of unknown context managers that leave autograd alone."""

SPEAKS_OF_GRAD = lazy_pattern(r"grad|eval|infer")


SWITCHES = frozenset({"torch.set_grad_enabled", "torch.autograd.set_grad_enabled"})


def turns_grad_off(manager: Value) -> bool:
    """Whether autograd is off, or may be, inside `with manager`: what is not understood may turn it off."""
    match manager:
        case LibraryObject() if manager.path in SWITCHES:
            return _switched_on(manager) is False
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
            return manager.cls.has_unknown_base or any("grad" in unparse(own.node) for own in manager.cls.lineage())
        case _:
            return False


GRAD = frozenset({"torch.enable_grad", "torch.autograd.enable_grad", "torch.autograd.grad_mode.enable_grad"})


def modes_set(manager: Value) -> tuple[bool | None, ...]:
    """What a manager, or a decorator, sets autograd to: nothing, or one of on, off and not known."""
    match manager:
        case LibraryObject() | Library() if manager.path in NO_GRAD:
            return (False,)
        case LibraryObject() | Library() if manager.path in GRAD:
            return (True,)
        case LibraryObject() if manager.path in SWITCHES:
            return (_switched_on(manager),)
        case _:
            return (None,) if turns_grad_off(manager) else ()


def switches_grad(manager: Value) -> bool:
    """Whether autograd inside `with manager` depends on a value of the script: `phase == "train"`."""
    return isinstance(manager, LibraryObject) and manager.path in SWITCHES and _switched_on(manager) is None


def _switched_on(manager: LibraryObject) -> bool | None:
    return operations.truth(manager.arguments.get("0", manager.arguments.get("mode", UNKNOWN)))


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


PARAMETERS = frozenset({"torch.nn.Parameter", "torch.nn.parameter.Parameter"})
CHANGES = frozenset(
    {
        *("add_", "addcdiv_", "addcmul_", "bernoulli_", "clamp_", "clip_", "copy_", "div_", "exp_", "fill_", "lerp_"),
        *("log_", "mul_", "neg_", "normal_", "pow_", "random_", "sub_", "uniform_", "zero_"),
    }
)
"""Methods of tensors that change their numbers."""


def note_change(reader: Reader, value: Value, location: Location, text: str) -> None:
    """Note that code changes a parameter in place, where autograd refuses that."""
    # A function that the file does not call may run with autograd off; what it makes itself is a leaf all the same.
    is_own = isinstance(value, LibraryObject | Tensor) or reader.frame.name == "__init__"
    may_be_off = reader.uncalled and not is_own
    if not reader.without_grad and not reader.grad_switches and not may_be_off and _is_leaf(value):
        reader.record.misuses.append(Misuse(location, value, CHANGED_IN_PLACE, text))


def _is_leaf(value: Value) -> bool:
    """Whether a value is a parameter, or a tensor that was made to require gradients."""
    match value:
        case LibraryObject(path=path, arguments=arguments):
            learns = arguments.get("requires_grad", arguments.get("1", Constant(True)))
            return path in PARAMETERS and isinstance(learns, Constant) and learns.value is True
        case Parameter(of=modules):
            return bool(modules) and not any(isinstance(module, Unknown) for module in modules)
        case Tensor(made=None, cut=None, text=text):
            return "requires_grad" in text and _makes_leaf(text)
        case _:
            return weight_of(value) is not None


def _makes_leaf(text: str) -> bool:
    """Whether code is one call of torch that makes a tensor of its own which requires gradients."""
    match expression_of(text):
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch")) | ast.Name(id="Variable"), keywords=keywords):
            given = (each.value for each in keywords if each.arg == "requires_grad")
            return any(isinstance(each, ast.Constant) and each.value is True for each in given)
        case _:
            return False
