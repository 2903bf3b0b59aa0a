"""Calls: arguments bound to parameters, the script's own functions followed into, library calls handed to transfers."""

from __future__ import annotations

import ast
from collections.abc import Callable

from lintrain.interpreter import functions, inherited, own_arguments, project_modules
from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.call import Call, escape
from lintrain.interpreter.core.module_parts import runs_inside_a_forward
from lintrain.interpreter.core.reader import DEPTH_BUDGET, Flow, Frame, Reader
from lintrain.interpreter.core.registry import (
    callee,
    derived_transfer,
    expression,
    function_at,
    method_of,
)
from lintrain.interpreter.core.scope import Scope
from lintrain.interpreter.functions import sole_base, transfer_of
from lintrain.interpreter.grad_modes import CHANGES, is_without_grad, modes_set, note_change
from lintrain.model.location import Location
from lintrain.pipeline.events import Act
from lintrain.pipeline.modules import is_module
from lintrain.pipeline.record import LibraryCall
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.installed import InstalledName
from lintrain.pipeline.values.model import Model, Module, Optimizer
from lintrain.pipeline.values.python import (
    ABSENT,
    UNKNOWN,
    Bound,
    Class,
    Constant,
    Either,
    Function,
    Instance,
    Library,
    LibraryObject,
    Literal,
    Mapping,
    Partial,
    Sequence,
    Super,
    Unknown,
    Value,
    join,
)
from lintrain.source.nodes import walk
from lintrain.startup.lazy_dataclass import dataclass


@expression(ast.Call)
def evaluate_call(reader: Reader, node: ast.Call, scope: Scope) -> Value:
    """What a call in the script gives."""
    called = _callee(reader, node, scope)
    location = reader.source.location(node)
    call = Call(reader, node, location)
    add_arguments(reader, call, node, scope)
    own_arguments.note_misfit(call, called)
    return dispatch.invoke(call, called)


def _callee(reader: Reader, node: ast.Call, scope: Scope) -> Value:
    # `super()` without arguments depends on the frame it is called in, so it is settled here, where the
    # frame is known. A script that binds the name `super` itself means its own.
    if isinstance(node.func, ast.Name) and node.func.id == "super" and scope.lookup("super") is None:
        frame = reader.frame
        if frame.receiver is not None and frame.owner is not None:
            return Partial(Super(frame.receiver, frame.owner), [], {})
    return dispatch.evaluate(reader, node.func, scope)


@callee(Either)
def _invoke_any(call: Call, called: Either) -> Value:
    # Of `loss = Dense() if dense else Plain()`, one that would refuse these arguments is not the one that is called.
    fitting = [option for option in called.options if not functions.refuses(call, option)] or called.options
    call.reader.alternatives += 1
    try:
        return join([dispatch.invoke(call, option) for option in fitting])
    finally:
        call.reader.alternatives -= 1


@callee(Function)
def _invoke_function(call: Call, called: Function) -> Value:
    return run_function(call, called, None, None)


@callee(Library)
def _invoke_library(call: Call, called: Library) -> Value:
    call.path = called.path
    record_call(call)
    transfer = function_at(called.path)
    facts = call.reader.record.targets.installed.of(called.path) if transfer is None else None
    if facts is not None and (transfer := derived_transfer(facts)) is not None:
        call.receiver = InstalledName(name=called.path, facts=facts)
    if transfer is not None:
        return dispatch.ask(call, transfer)
    escape(call)
    return LibraryObject(called.path, call.values(), origin=call.location)


def record_call(call: Call) -> None:
    """Note a library call for the rules about arguments and names."""
    if call.node is None or call.path.startswith("builtins."):
        return
    reader = call.reader
    if (changed := call.argument("out")) is not None:
        note_change(reader, changed.value, call.location, changed.text)
    guarded = reader.guards > 0
    callee = reader.code(reader.source.location(call.node.func))
    # Fixes that remove a call's argument need a call that is certainly made: one under `if` may be for
    # other versions.
    certain = not reader.uncalled and not reader.conditions
    given = dict(call.keywords)
    made = LibraryCall(call.path, call.location, given, len(call.positional), guarded, call.is_open, callee, certain)
    reader.record.calls.append(made)


def record_construction(call: Call, cls: Class | None) -> None:
    """Note that a library's constructor takes the call, for an object of the script's class that derives from it."""
    base = sole_base(cls) if cls is not None else None
    if base is not None:
        # The call is recorded under the library's name, since `class Mine(Trainer)` without a constructor
        # takes what `Trainer` takes, and then gets its own path back.
        path, call.path = call.path, base
        record_call(call)
        call.path = path


@callee(Bound)
def _invoke_method(call: Call, called: Bound) -> Value:
    if called.function is not None:
        if _passes_through(call.reader, called):
            return dispatch.invoke(call, called.receiver)
        return run_function(call, called.function, called.receiver, called.owner)
    call.receiver = called.receiver
    if called.name == "__init__":
        made = called.receiver.receiver if isinstance(called.receiver, Super) else called.receiver
        record_construction(call, made.cls if isinstance(made, Instance) else None)
        if isinstance(made, Instance) and inherited.construct(call, made):
            return Constant(None)
    if called.name in CHANGES:
        note_change(call.reader, called.receiver, call.location, call.receiver_text)
    call.path = f"{type(called.receiver).__name__}.{called.name}"
    transfer = method_of(called.receiver, called.name)
    if transfer is None and isinstance(called.receiver, Instance):
        transfer = transfer_of(called.receiver, called.name)
    if transfer is None and isinstance(called.receiver, Class):
        transfer = functions.class_transfer_of(called.receiver, called.name)
    if transfer is not None:
        return dispatch.ask(call, transfer)
    escape(call)
    # An unknown method of a model may freeze it or move it. Because of the event, rules are silent about what
    # they cannot see.
    if isinstance(called.receiver, Model | Module | Optimizer):
        call.reader.act(Act.ESCAPE, call.location, called.receiver)
    return UNKNOWN


def _passes_through(reader: Reader, called: Bound) -> bool:
    """Whether calling a method runs a whole module: `model.forward(x)` is a pass as `model(x)` is."""
    module = called.receiver
    if called.name != "forward" or not isinstance(module, Instance) or not is_module(module):
        return False
    # `super().forward(x)` means the method of another class, and a forward pass calls those of its parts.
    return module.cls.lookup("forward") == (called.owner, called.function) and not runs_inside_a_forward(reader)


@callee(Partial)
def _invoke_partial(call: Call, called: Partial) -> Value:
    if isinstance(called.function, Super):
        return called.function
    call.reader.spend(len(called.positional) + len(called.keywords))
    # `partial(f, 1)(2)` is `f(1, 2)`; and of a name that both give, the later call wins.
    call.positional[:0] = [Argument(value, call.location) for value in called.positional]
    for name, value in called.keywords.items():
        call.keywords.setdefault(name, Argument(value, call.location))
    return dispatch.invoke(call, called.function)


@dataclass(eq=False, slots=True)
class ContextCall(Value):
    """A call of a function made for `with` by `contextlib.contextmanager`: its body runs around that of the `with`."""

    call: Call
    function: Function
    receiver: Value | None = None
    owner: Class | None = None


MOST_STATEMENTS = 8
"""Statements of a function that is read once more where it calls itself."""


def _goes_into_parts(node: ast.AST) -> bool:
    """Whether a small function asks what it is given, as one that moves the parts of a batch to a device does."""
    body = node.body if isinstance(node, ast.FunctionDef) else []
    names = (each.func for each in walk(node) if isinstance(each, ast.Call)) if 0 < len(body) <= MOST_STATEMENTS else ()
    return any(isinstance(name, ast.Name) and name.id == "isinstance" for name in names)


def run_function(
    call: Call,
    function: Function,
    receiver: Value | None,
    owner: Class | None,
    at_yield: Callable[[Value], None] | None = None,
) -> Value:
    """What one of the script's functions returns; Unknown past the depth budget and in recursion.

    `at_yield` is what happens where it yields, for a function that manages the context of a `with`.
    """
    from lintrain.interpreter.core.reader import Frame

    reader = call.reader
    # The body of a context manager runs around that of the `with`, which is not known yet: `contexts` runs
    # both.
    if at_yield is None and functions.makes_context(function):
        return ContextCall(call, function, receiver, owner, origin=call.location)
    # Modules have frames too, but do not count: a script with many imports follows its functions as deep as
    # any other.
    around = [frame for frame in reader.frames if frame.function is not None]
    # Recursion would end at the depth budget too, but each level multiplies the steps. A suspended function
    # is no recursion: it is a context manager that waits for the body of its `with`, which may call it
    # again.
    inside = [frame for frame in around if frame.function is function and not frame.is_suspended]
    is_too_deep = inside and len(inside) > reader.once(_goes_into_parts, function.node)
    if len(around) >= DEPTH_BUDGET or is_too_deep:
        escape(call)
        return UNKNOWN
    reader.visited.add(function.node)
    # A scope for each call: what one call binds must not be seen by the next.
    scope = Scope.inside(function.scope)
    functions.bind_parameters(call, function, receiver, scope)
    depths = (len(reader.loops), len(reader.conditions))
    frame = Frame(function, scope, [], receiver, owner, source=function.source, at_yield=at_yield, depths=depths)
    frame.call = call.node
    # Steps outside the script's file have a budget of their own. It is entered once, at the outermost such
    # call.
    if function.source is None or reader.modules.entered_at is not None:
        return _run_in(reader, frame, function)
    with project_modules.outside(reader):
        return _run_in(reader, frame, function)
    escape(call)
    return UNKNOWN


def _run_in(reader: Reader, frame: Frame, function: Function) -> Value:
    reader.enter(frame)
    # A count, not a flag: `@torch.no_grad()` on a function that is called inside `with torch.no_grad()`
    # ends only its own.
    turns_off = is_without_grad(function.decorators)
    reader.without_grad += turns_off
    known = len(reader.grad_modes)
    for mark in function.decorators:
        reader.grad_modes.extend(modes_set(mark) or ((None,) if turns_off else ()))
    result = _run_body(reader, function, frame.scope)
    del reader.grad_modes[known:]
    reader.without_grad -= turns_off
    reader.leave()
    return UNKNOWN if function.is_wrapped else result


def _run_body(reader: Reader, function: Function, scope: Scope) -> Value:
    if isinstance(function.node, ast.Lambda):
        return dispatch.evaluate(reader, function.node.body, scope)
    flow = dispatch.execute_block(reader, function.node.body, scope)
    frame = reader.frame
    # Calling it gives a coroutine, and what `await` gives of that is not followed.
    if isinstance(function.node, ast.AsyncFunctionDef):
        return UNKNOWN
    if reader.source.contains("yield") and reader.once(functions.is_generator, function.node):
        # Yields in a row are the items in order. A yield in a loop or under a condition gives some item,
        # again and again: one value stands for all of them.
        items = frame.yields if frame.yields_once else [join(frame.yields)]
        return Sequence(items, "generator", frame.yields_once, origin=function.origin)
    if not frame.returns and (flow is Flow.LEAVE_FUNCTION or _is_left_open(function.node)):
        return Unknown(name=function.name)
    # A function that may reach its end returns None as well: `def f(x): if x: return 1` gives 1 or None.
    ends = [] if flow is Flow.LEAVE_FUNCTION else [Constant(None)]
    return join([*frame.returns, *ends]) if frame.returns else Constant(None)


def _is_left_open(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> bool:
    """Whether a method has no code, so that a subclass elsewhere says what it returns."""
    is_method = bool(node.args.args) and node.args.args[0].arg == "self"
    body = [] if isinstance(node, ast.Lambda) else node.body
    return is_method and all(
        isinstance(each, ast.Pass) or (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
        for each in body
    )


def add_arguments(reader: Reader, call: Call, node: ast.Call, scope: Scope) -> None:
    """Evaluate the arguments of a call into it, from left to right."""
    source = reader.source
    for argument in node.args:
        # In the order of the code, keywords after positional arguments, as Python evaluates them:
        # `f(next(it), x=next(it))`.
        value = dispatch.evaluate(reader, argument, scope)
        location = source.location(argument)
        if isinstance(argument, ast.Starred):
            if isinstance(value, Sequence) and value.is_complete:
                reader.spend(len(value.items))
                call.positional.extend(Argument(item, location) for item in value.items)
            else:
                # `f(*unknown)` may give any number of arguments. The call stays open to the end, whatever
                # follows by name.
                call.is_open, call.spread = True, value
        else:
            call.positional.append(Argument(value, location, source))
    for keyword in node.keywords:
        value = dispatch.evaluate(reader, keyword.value, scope)
        location = source.location(keyword.value)
        if keyword.arg is not None:
            call.keywords[keyword.arg] = Argument(value, location, source, source.location(keyword))
        else:
            _add_expanded(call, value, location, is_as_written=_is_as_written(reader, keyword.value, value))


def _is_as_written(reader: Reader, node: ast.expr, value: Value) -> bool:
    """Whether nothing but calls that expand it can have seen the dictionary of `**node` since it was written."""
    function = reader.frame.function
    if isinstance(node, ast.Dict) or not isinstance(node, ast.Name):
        return isinstance(node, ast.Dict)
    if function is not None and function.node.args.kwarg is not None and function.node.args.kwarg.arg == node.id:
        return reader.once(functions.hands_all_on, function.node)
    # Only then are the keys of the dictionary where their values were given, so that a finding can
    # point at them.
    dictionary = reader.source.cached(functions.dictionaries_of).get(node.id)
    return dictionary is not None and value.origin == reader.source.location(dictionary)


def _add_expanded(call: Call, value: Value, location: Location, *, is_as_written: bool) -> None:
    """`**value` in a call; `**batch` is kept as an argument of its own, for models that are called with it."""
    if not isinstance(value, Mapping):
        call.keywords.setdefault("**", Argument(value, call.location))
        call.is_open = True
        return
    call.is_open = call.is_open or not value.is_complete
    call.reader.spend(len(value.entries))
    here, optional = call.reader.source.path, value.exclude_each_other() if value.sides else frozenset[Literal]()
    for name, item in value.entries.items():
        if isinstance(name, str):
            given = join([item, ABSENT]) if name in optional else item
            written = value.written.get(name)
            # What comes from a settings file has its keys there, whatever else the script does with them.
            named_at = written if is_as_written or (written is not None and written.path != here) else None
            # A keyword that was written out wins over one of `**options`. In Python both together are a
            # TypeError, and that is not a mistake of training.
            call.keywords.setdefault(name, Argument(given, location, named_at=named_at))
