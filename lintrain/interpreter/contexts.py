"""`with`: what its managers bind, and what they do before and after its body."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from lintrain.interpreter import expressions, invocation, objects, operations, project_modules, statements
from lintrain.interpreter.call import Call
from lintrain.interpreter.flow import Flow
from lintrain.interpreter.scope import Scope
from lintrain.interpreter.targets import assign
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Class,
    Constant,
    Either,
    Function,
    Instance,
    LibraryObject,
    Unknown,
    Value,
)
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from lintrain.interpreter.reader import Reader

NO_GRAD = frozenset(
    {"torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad", "torch.autograd.grad_mode.no_grad"}
)

MAY_HOLD_OTHERS = frozenset({"contextlib.ExitStack", "contextlib.AsyncExitStack"})

KEEPS_GRAD = lazy_pattern(r"amp|cast|accumul|sync|device|profil|tqdm|progress|tape|timer|launcher|rank")
"""Names of unknown context managers that leave autograd alone."""


@dataclass(eq=False, slots=True)
class ContextCall(Value):
    """A call of a function made for `with` by `contextlib.contextmanager`: its body runs around that of the `with`."""

    call: Call
    function: Function
    receiver: Value | None = None
    owner: Class | None = None


def execute_with(reader: Reader, node: ast.With | ast.AsyncWith, scope: Scope) -> Flow:
    """`with a as b, c as d:`."""
    return _enter(reader, node.items, node.body, scope)


def _enter(reader: Reader, items: Sequence[ast.withitem], body: Sequence[ast.stmt], scope: Scope) -> Flow:
    if not items:
        return statements.execute_block(reader, body, scope)
    item, *others = items
    manager = expressions.evaluate(reader, item.context_expr, scope)

    def inside(entered: Value) -> Flow:
        if item.optional_vars is not None:
            assign(reader, item.optional_vars, entered, scope)
        return _enter(reader, others, body, scope)

    if isinstance(manager, ContextCall):
        return _run_around(reader, manager, inside)
    turns_off = turns_grad_off(manager)
    reader.without_grad += turns_off
    flow = inside(_entered(reader, manager, item))
    _leave(reader, manager, item)
    reader.without_grad -= turns_off
    return flow


def _run_around(reader: Reader, manager: ContextCall, inside: Callable[[Value], Flow]) -> Flow:
    """Run the function of a context manager, with the body of the `with` where it yields."""
    flows: list[Flow] = []
    outer = reader.frame

    def at_yield(value: Value) -> None:
        if not flows:
            flows.append(Flow.ON)
            with project_modules.Inside(reader, outer):
                flows[0] = inside(value)

    call = manager.call
    invocation.invoke(call, manager.function, manager.receiver, manager.owner, at_yield)
    return flows[0] if flows else inside(UNKNOWN)


def _entered(reader: Reader, manager: Value, item: ast.withitem) -> Value:
    """What `with manager as name` binds."""
    match manager:
        case Instance():
            given = objects.special(reader, manager, "__enter__", [], reader.source.location(item.context_expr))
            return manager if given is None else given
        case LibraryObject(path="contextlib.nullcontext"):
            return manager.arguments.get("0", manager.arguments.get("enter_result", Constant(None)))
        case _:
            return operations.entered(reader, manager)


def _leave(reader: Reader, manager: Value, item: ast.withitem) -> None:
    if isinstance(manager, Instance):
        nothing: list[Value] = [Constant(None)] * 3
        objects.special(reader, manager, "__exit__", nothing, reader.source.location(item.context_expr))


def turns_grad_off(manager: Value) -> bool:
    """Whether autograd is off, or may be, inside `with manager`: what is not understood may turn it off."""
    match manager:
        case LibraryObject(path="torch.set_grad_enabled"):
            return operations.truth(manager.arguments.get("0", UNKNOWN)) is not True
        case LibraryObject():
            return manager.path in NO_GRAD or manager.path in MAY_HOLD_OTHERS
        case Either():
            return any(turns_grad_off(option) for option in manager.options)
        case Unknown():
            return not KEEPS_GRAD.search(manager.name)
        case Instance():
            return manager.cls.has_unknown_base or any("grad" in ast.unparse(own.node) for own in manager.cls.lineage())
        case _:
            return False
