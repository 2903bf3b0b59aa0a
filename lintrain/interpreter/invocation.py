"""Calls: arguments bound to parameters, the script's own functions followed into, library calls handed to transfers."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from lintrain.interpreter import (
    arguments,
    contexts,
    decorators,
    expressions,
    functions,
    objects,
    project_modules,
    statements,
)
from lintrain.interpreter.call import Call
from lintrain.interpreter.flow import Flow
from lintrain.interpreter.handing import escape
from lintrain.interpreter.registry import CALLED, INSTANCES_CALLED, Transfer, function_at, method_of, of_type
from lintrain.interpreter.scope import Scope
from lintrain.interpreter.weights import weighed
from lintrain.model.location import Location
from lintrain.pipeline.events import Act
from lintrain.pipeline.modules import lineage_of
from lintrain.pipeline.record import LibraryCall
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.files import Settings
from lintrain.pipeline.values.model import Model, Module, Optimizer
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Bound,
    Class,
    Constant,
    Either,
    Function,
    Instance,
    Library,
    LibraryObject,
    Partial,
    Sequence,
    Super,
    Unknown,
    Value,
    join,
)

if TYPE_CHECKING:
    from lintrain.interpreter.reader import Frame, Reader


def evaluate_call(reader: Reader, node: ast.Call, scope: Scope) -> Value:
    """What a call in the script gives."""
    callee = _callee(reader, node, scope)
    location = reader.source.location(node)
    call = Call(reader, node, location)
    arguments.add_arguments(reader, call, node, scope)
    return invoke_value(call, callee)


def _callee(reader: Reader, node: ast.Call, scope: Scope) -> Value:
    if isinstance(node.func, ast.Name) and node.func.id == "super" and scope.lookup("super") is None:
        frame = reader.frame
        if frame.receiver is not None and frame.owner is not None:
            return Partial(Super(frame.receiver, frame.owner), [], {})
    return expressions.evaluate(reader, node.func, scope)


def apply(
    reader: Reader, callee: Value, positional: list[Value], keywords: dict[str, Value], location: Location
) -> Value:
    """What a value gives when something calls it with these arguments."""
    call = Call(reader, None, location)
    call.positional.extend(Argument(value, location) for value in positional)
    call.keywords.update({name: Argument(value, location) for name, value in keywords.items()})
    return invoke_value(call, callee)


def invoke_value(call: Call, callee: Value) -> Value:
    """What a call gives, by what is called."""
    match callee:
        case Either():
            return join([invoke_value(call, option) for option in callee.options])
        case Library():
            return _invoke_library(call, callee)
        case Function():
            return invoke(call, callee, None, None)
        case Bound(function=Function() as function, receiver=receiver, owner=owner):
            return invoke(call, function, receiver, owner)
        case Bound():
            return _invoke_method(call, callee)
        case Class():
            call.receiver = callee
            return objects.instantiate(call, callee)
        case Instance():
            return _invoke_instance(call, callee)
        case Partial(function=Super() as above):
            return above
        case Partial():
            return _invoke_partial(call, callee)
        case _:
            return _invoke_other(call, callee)


def _invoke_library(call: Call, callee: Library) -> Value:
    call.path = callee.path
    record_call(call)
    transfer = function_at(callee.path)
    if transfer is not None:
        return _ask(call, transfer)
    escape(call)
    return LibraryObject(callee.path, call.values(), origin=call.location)


def record_call(call: Call) -> None:
    """Note a library call for the rules about arguments and names."""
    if call.node is None or call.path.startswith("builtins."):
        return
    reader = call.reader
    guarded = reader.guards > 0
    callee = reader.code(reader.source.location(call.node.func))
    certain = not reader.uncalled and not reader.conditions
    given = dict(call.keywords)
    made = LibraryCall(call.path, call.location, given, len(call.positional), guarded, call.is_open, callee, certain)
    reader.record.calls.append(made)


def record_construction(call: Call, cls: Class | None) -> None:
    """Note that a library's constructor takes the call, for an object of the script's class that derives from it."""
    base = objects.sole_base(cls) if cls is not None else None
    if base is not None:
        path, call.path = call.path, base
        record_call(call)
        call.path = path


def _invoke_method(call: Call, callee: Bound) -> Value:
    call.receiver = callee.receiver
    if callee.name == "__init__":
        made = callee.receiver.receiver if isinstance(callee.receiver, Super) else callee.receiver
        record_construction(call, made.cls if isinstance(made, Instance) else None)
    call.path = f"{type(callee.receiver).__name__}.{callee.name}"
    transfer = method_of(callee.receiver, callee.name)
    if transfer is None and isinstance(callee.receiver, Instance):
        transfer = objects.transfer_of(callee.receiver, callee.name)
    if transfer is not None:
        return _ask(call, transfer)
    escape(call)
    if isinstance(callee.receiver, Model | Module | Optimizer):
        call.reader.act(Act.ESCAPE, call.location, callee.receiver)
    return UNKNOWN


def _invoke_instance(call: Call, callee: Instance) -> Value:
    call.receiver = callee
    for path in lineage_of(callee.cls.library_bases):
        if path in INSTANCES_CALLED:
            return _ask(call, INSTANCES_CALLED[path])
    found = callee.cls.lookup("__call__")
    if found is not None and isinstance(found[1], Function):
        return invoke(call, found[1], callee, found[0])
    return _invoke_other(call, Unknown()) if callee.cls.has_unknown_base else unknown_result(call)


def _invoke_partial(call: Call, callee: Partial) -> Value:
    call.reader.spend(len(callee.positional) + len(callee.keywords))
    call.positional[:0] = [Argument(value, call.location) for value in callee.positional]
    for name, value in callee.keywords.items():
        call.keywords.setdefault(name, Argument(value, call.location))
    return invoke_value(call, callee.function)


def _invoke_other(call: Call, callee: Value) -> Value:
    call.receiver = callee
    transfer = of_type(CALLED, callee)
    if transfer is not None:
        return _ask(call, transfer)
    escape(call)
    return UNKNOWN


def _ask(call: Call, transfer: Transfer) -> Value:
    """What something of a library gives, which may look through all that it is given."""
    for argument in (*call.positional, *call.keywords.values()):
        argument.value = weighed(call.reader, argument.value)
    return transfer(call)


def invoke(
    call: Call,
    function: Function,
    receiver: Value | None,
    owner: Class | None,
    at_yield: Callable[[Value], None] | None = None,
) -> Value:
    """What one of the script's functions returns; Unknown past the depth budget and in recursion.

    `at_yield` is what happens where it yields, for a function that manages the context of a `with`.
    """
    from lintrain.interpreter.reader import DEPTH_BUDGET, Frame

    reader = call.reader
    if at_yield is None and decorators.makes_context(function):
        return contexts.ContextCall(call, function, receiver, owner, origin=call.location)
    depth = sum(frame.function is not None for frame in reader.frames)
    recurses = any(frame.function is function and not frame.is_suspended for frame in reader.frames)
    if depth >= DEPTH_BUDGET or recurses:
        escape(call)
        return UNKNOWN
    reader.visited.add(function.node)
    scope = Scope.inside(function.scope)
    functions.bind_parameters(call, function, receiver, scope)
    depths = (len(reader.loops), len(reader.conditions))
    frame = Frame(function, scope, [], receiver, owner, source=function.source, at_yield=at_yield, depths=depths)
    frame.call = call.node
    if function.source is None or reader.modules.entered_at is not None:
        return _run_in(reader, frame, function)
    with project_modules.outside(reader):
        return _run_in(reader, frame, function)
    escape(call)
    return UNKNOWN


def _run_in(reader: Reader, frame: Frame, function: Function) -> Value:
    reader.frames.append(frame)
    turns_off = statements.is_without_grad(function.decorators)
    reader.without_grad += turns_off
    result = _run_body(reader, function, frame.scope)
    reader.without_grad -= turns_off
    reader.frames.pop()
    return UNKNOWN if function.is_wrapped else result


def _run_body(reader: Reader, function: Function, scope: Scope) -> Value:
    if isinstance(function.node, ast.Lambda):
        return expressions.evaluate(reader, function.node.body, scope)
    flow = statements.execute_block(reader, function.node.body, scope)
    frame = reader.frame
    if isinstance(function.node, ast.AsyncFunctionDef):
        return UNKNOWN
    if reader.source.says("yield") and reader.once(functions.is_generator, function.node):
        items = frame.yields if frame.yields_once else [join(frame.yields)]
        return Sequence(items, "generator", frame.yields_once, origin=function.origin)
    ends = [] if flow is Flow.LEAVE_FUNCTION else [Constant(None)]
    return join([*frame.returns, *ends]) if frame.returns else Constant(None)


def read_alone(reader: Reader, function: Function, owner: Class | None) -> Value:
    """What a function that nobody in the file calls gives: parameters are unknown, defaults may be overruled."""
    location = function.origin or reader.source.location(reader.source.tree.body[0])
    call = Call(reader, None, location)
    node = function.node
    names = [parameter.arg for parameter in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    receiver = _receiver(reader, owner, function, location) if owner is not None and names else None
    if function.node in reader.visited and function.name == "__init__":
        return Constant(None)
    for name in names[1:] if receiver is not None else names:
        default = function.defaults.get(name)
        value = functions.attribute_default(default) if isinstance(default, Constant | Settings) else Unknown(name=name)
        call.keywords[name] = Argument(value, location)
    return invoke(call, function, receiver, owner)


def _receiver(reader: Reader, owner: Class, function: Function, location: Location) -> Value | None:
    """What a method gets as its first argument: an object of the class, made with arguments that are not known."""
    kinds = {decorators.path_of(decorator) for decorator in function.decorators}
    if kinds & {"builtins.staticmethod", "builtins.classmethod"}:
        return owner if "builtins.classmethod" in kinds else None
    if owner.node not in reader.instances:
        call = Call(reader, None, location, receiver=owner, is_open=True)
        objects.make_instance(call, owner)
    return reader.instances[owner.node]


def unknown_result(call: Call) -> Value:
    """The result of a call that is not understood, its arguments noted as handed over."""
    escape(call)
    return UNKNOWN
