"""What is done to code and to values: each verb looks up a table by the type of what it is given.

The tables are filled by the modules of the language and of the libraries. Those call each other only through here: an
expression contains calls, a call runs statements, and statements contain expressions.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from lintrain.interpreter.core.arithmetic import is_none
from lintrain.interpreter.core.call import Call, escape
from lintrain.interpreter.core.items import any_of
from lintrain.interpreter.core.reader import Flow, Narrowed, Reader, weighed
from lintrain.interpreter.core.registry import (
    ATTRIBUTES,
    CALLED,
    CALLEES,
    ELEMENTS,
    EXPRESSIONS,
    STATEMENTS,
    SUBSCRIPTS,
    Transfer,
    method_of,
    of_type,
)
from lintrain.interpreter.core.scope import Scope
from lintrain.model.location import Location
from lintrain.pipeline.events import Condition
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.columns import forget_frames
from lintrain.pipeline.values.python import UNKNOWN, Bound, Constant, Either, Mapping, Unknown, Unstored, Value, join
from lintrain.pipeline.values.python import Sequence as SequenceValue
from lintrain.source.nodes import children, unparse
from lintrain.source.nodes import statements as all_statements


def evaluate(reader: Reader, node: ast.expr, scope: Scope) -> Value:
    """What an expression gives; Unknown if that is not understood."""
    # As `reader.spend()`, whose call would cost more than it does: every node comes here.
    reader.steps += 1
    if reader.steps > reader.limit:
        reader.stop()
    # By exact type: nodes of `ast` have no subclasses, and a walk over bases would cost more than most
    # expressions.
    handler = EXPRESSIONS.get(type(node))
    return handler(reader, node, scope) if handler else _look_inside(reader, node, scope)


def _look_inside(reader: Reader, node: ast.expr, scope: Scope) -> Value:
    """Evaluate the parts of an expression that means nothing to the reader itself."""
    for child in children(node):
        if isinstance(child, ast.expr):
            evaluate(reader, child, scope)
    return UNKNOWN


def execute(reader: Reader, statement: ast.stmt, scope: Scope) -> Flow:
    """Run one statement."""
    reader.spend()
    handler = STATEMENTS.get(type(statement))
    return handler(reader, statement, scope) if handler else Flow.ON


MAY_BRANCH = (ast.If, ast.Try)


def execute_block(reader: Reader, body: Sequence[ast.stmt], scope: Scope) -> Flow:
    """Run statements in order until one leaves the block.

    What follows an `if` that leaves on one side only is itself conditional.
    """
    for position, statement in enumerate(body):
        flow = execute(reader, statement, scope)
        # What follows `return` or `break` in the same block never runs. Reading on would record events that
        # cannot happen.
        if flow is not Flow.ON:
            return flow
        if (
            isinstance(statement, MAY_BRANCH)
            and reader.once(_may_leave, statement)
            and not _is_settled(reader, statement)
        ):
            # In `for x in y: if skip: continue; step()` the `step` runs only if the branch did not leave.
            # The rest of the block is the branch that is missing, so it gets the condition of the `if`, as
            # if it stood under an `else`.
            remaining = _remaining(reader, statement)
            left = _left_for(reader, statement, remaining)
            with reader.condition(reader.source.location(statement), remaining), reader.tested(left):
                return execute_block(reader, body[position + 1 :], scope)
        # `if version < "4.40": raise` guards the rest: what it uses exists in the versions that come so
        # far.
        if isinstance(statement, ast.If) and reader.once(_refuses_versions, statement):
            reader.guards += 1
            flow = execute_block(reader, body[position + 1 :], scope)
            reader.guards -= 1
            return flow
    return Flow.ON


def _remaining(reader: Reader, statement: ast.stmt) -> Condition | None:
    """The condition of the side of an `if` that goes on, where the other side always leaves; None for other code."""
    if not isinstance(statement, ast.If) or statement not in reader.branches:
        return None
    then, other = reader.branches[statement]
    left, remaining = (statement.body, other) if _always_leaves(statement.body) else (statement.orelse, then)
    if not _always_leaves(left) or (left is statement.body and _always_leaves(statement.orelse)):
        return None
    remaining.ends_loop = not isinstance(left[-1], ast.Continue)
    return remaining


def _left_for(reader: Reader, statement: ast.stmt, remaining: Condition | None) -> Narrowed:
    """What the test of an `if` leaves of values for the code after it, where one side always leaves."""
    if remaining is None or statement not in reader.left:
        return {}
    return reader.left[statement][remaining.is_else]


def _always_leaves(body: Sequence[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], ast.Return | ast.Continue | ast.Break | ast.Raise)


def _refuses_versions(statement: ast.If) -> bool:
    """Whether an `if` raises on some versions of a library: what follows is written for the others."""
    if not any(isinstance(node, ast.Raise) for node in all_statements([statement])):
        return False
    test = unparse(statement.test)
    return any(word in test for word in ("__version__", "version.parse", "Version("))


def _may_leave(statement: ast.stmt) -> bool:
    return any(isinstance(node, ast.Return | ast.Continue | ast.Break) for node in all_statements([statement]))


def _is_settled(reader: Reader, statement: ast.If | ast.Try) -> bool:
    """Whether an `if` was certain to go one way; a `try` never is."""
    return statement in reader.settled


def call(
    reader: Reader,
    callee: Value,
    positional: Sequence[Value],
    keywords: dict[str, Value] | None = None,
    *,
    location: Location,
) -> Value:
    """What a value gives when something calls it with these arguments: a library, or the language itself."""
    made = Call(reader, None, location)
    # Without a source: no code of the script wrote these arguments, so no rule may point at them or fix
    # them.
    made.positional.extend(Argument(value, location) for value in positional)
    made.keywords.update({name: Argument(value, location) for name, value in (keywords or {}).items()})
    return invoke(made, callee)


def invoke(call: Call, callee: Value) -> Value:
    """What a call gives, by what is called."""
    handler = CALLEES.get(type(callee))
    return handler(call, callee) if handler else invoke_other(call, callee)


def invoke_other(call: Call, callee: Value) -> Value:
    """What calling a value gives that only a library may know."""
    call.receiver = callee
    transfer = of_type(CALLED, callee)
    if transfer is not None:
        return ask(call, transfer)
    escape(call)
    # `transform=None` is called only where it is another one: then another value is what counts.
    return Unstored() if isinstance(callee, Constant) and callee.value is None else UNKNOWN


def ask(call: Call, transfer: Transfer) -> Value:
    """What something of a library gives, which may look through all that it is given."""
    for argument in (*call.positional, *call.keywords.values()):
        # Before the transfer runs, so that the cost of a library function is bounded by what it can look
        # through.
        argument.value = weighed(call.reader, argument.value)
    return transfer(call)


def attribute(reader: Reader, value: Value, name: str, location: Location) -> Value:
    """What `value.name` is: a method comes bound to the value."""
    if isinstance(value, Either):
        # `model = None` before the `if` that makes it: reading an attribute means that the script knows it
        # is not None.
        options = [option for option in value.options if not is_none(option)] or value.options
        return join([attribute(reader, option, name, location) for option in options])
    if isinstance(value, Constant) and value.value is None and value.default:
        # `def train(scaler=None)` that goes on to `scaler.step(…)`: there it is what the caller gives.
        value = child(reader, value, "given")
    handler = of_type(ATTRIBUTES, value)
    # None is not "no such attribute" but "no opinion": methods are found by the type, for all types alike.
    found = handler(reader, value, name, location) if handler else None
    if found is not None:
        return found
    if method_of(value, name) is not None or not isinstance(value, Unknown):
        return Bound(value, name)
    return child(reader, value, name)


def child(reader: Reader, value: Value, name: str) -> Unknown:
    """The unknown thing that an unknown value has under a name: the same one each time."""
    if value is UNKNOWN:
        return UNKNOWN
    if isinstance(value, Unstored):
        return value
    # The same object each time, so that `model.head` frozen in one place and trained in another is one
    # thing. `kept` holds the value: if it were collected, another one could get its identity, and its
    # attributes with it.
    key = (id(value), name)
    if key not in reader.children:
        outer = value.name if isinstance(value, Unknown) else "self"
        reader.children[key] = Unknown(name=f"{outer}.{name}", within=value)
        reader.kept.append(value)
    return reader.children[key]


def subscript(reader: Reader, value: Value, key: Value, location: Location) -> Value:
    """What `value[key]` is."""
    if isinstance(value, Either):
        return _subscript_each(reader, value, key, location)
    if isinstance(key, Either):
        return any_of([subscript(reader, value, option, location) for option in key.options])
    if isinstance(value, Unstored):
        return value
    handler = of_type(SUBSCRIPTS, value)
    if handler:
        return handler(reader, value, weighed(reader, key), location)
    # `batch["labels"]` of an unknown batch is followed like an attribute: the same unknown thing each time.
    if isinstance(value, Unknown) and isinstance(key, Constant):
        return child(reader, value, f"[{key.value!r}]")
    return UNKNOWN


def _subscript_each(reader: Reader, value: Either, key: Value, location: Location) -> Value:
    """What any of the options gives; what only some of them do not allow is no misuse of them all."""
    misuses = reader.record.misuses
    before, is_shared, found = len(misuses), True, list[Value]()
    for option in value.options:
        count = len(misuses)
        found.append(subscript(reader, option, key, location))
        is_shared = is_shared and len(misuses) > count
    if not is_shared:
        del misuses[before:]
    return join(found)


def element(reader: Reader, value: Value) -> Value:
    """What a loop over a value gets each time."""
    if isinstance(value, Either):
        return join([element(reader, option) for option in value.options])
    handler = of_type(ELEMENTS, value)
    if handler:
        return handler(reader, value)
    match value:
        case SequenceValue() if value.items:
            # An incomplete list may hold anything besides what is known, unless its one item stands for all
            # of them.
            is_known = value.knows_items or len(value.items) == 1
            each = any_of(reader.counted(value.items)) if is_known else UNKNOWN
            if isinstance(each, Unknown):
                forget_frames(value)
            return each
        case Mapping() if value.entries and value.is_complete:
            return join(Constant(key) for key in reader.counted(value.entries))
        case Unknown() if value is not UNKNOWN:
            return child(reader, value, "[]")
        case _:
            return UNKNOWN
