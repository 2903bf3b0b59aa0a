"""A reading in which every unknown value is an object of its own, so that its origin can be kept.

Nothing of this is in lintrain: `traced()` replaces functions of the interpreter while it is open, so that an ordinary
check pays nothing. Shares are those of an ordinary reading; only the origins are taken from this one.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager
from typing import Any

from benchmarks.sight.names import callee_name, class_name, kind_of, row_kind
from benchmarks.sight.origins import Mechanism, Origin, Origins
from benchmarks.sight.replacing import note_row, replaced
from benchmarks.sight.unresolved import after_call, of_name, of_result, with_attribute
from lintrain.interpreter import expressions, functions, invocation, statements
from lintrain.interpreter.core import dispatch, operations
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import function_at, method_of
from lintrain.interpreter.core.scope import Scope
from lintrain.model.location import Location
from lintrain.pipeline.values import python
from lintrain.pipeline.values.loading import Batch
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Bound,
    Class,
    Constant,
    Function,
    Instance,
    Library,
    LibraryObject,
    Mapping,
    Sequence,
    Unknown,
    Value,
    options_of,
)


class Tracer:
    """The replacements of functions of the interpreter, and those functions themselves."""

    def __init__(self, origins: Origins) -> None:
        self.origins = origins
        self.parts: list[list[Value]] = [[]]
        """What the parts of each expression gave that is being evaluated."""
        self.replacements: dict[Callable[..., Any], Callable[..., Any]] = {
            dispatch.evaluate: self.evaluate,
            dispatch.invoke: self.invoke,
            dispatch.attribute: self.attribute,
            dispatch.subscript: self.subscript,
            dispatch.element: self.element,
            dispatch.child: self.child,
            operations.unpack: self.unpack,
            python.join: self.join,
            invocation.run_function: self.run_function,
            functions.bind_parameters: self.bind_parameters,
            expressions.computed: self.computed,
            statements._entered: self.entered,
        }
        self.original = {other.__name__: function for function, other in self.replacements.items()}

    def noted(self, made: Value, find: Callable[[], Origin]) -> Value:
        """A value with its origin, which is looked for only if the value is unknown and has none."""
        if not isinstance(made, Unknown) or id(made) in self.origins.of:
            return made
        return self.origins.note(made, self.origins.find(made) or find())

    def evaluate(self, reader: Reader, node: ast.expr, scope: Scope) -> Value:
        """What an expression gives."""
        self.parts.append([])
        try:
            made = self.original["evaluate"](reader, node, scope)
        finally:
            parts = self.parts.pop()
        value = self.noted(made, lambda: self._of_expression(reader, node, parts, scope))
        self.parts[-1].append(value)
        return value

    def _of_expression(self, reader: Reader, node: ast.expr, parts: list[Value], scope: Scope) -> Origin:
        if isinstance(node, ast.Name):
            return of_name(reader, node, scope)
        name = f"{type(node).__name__}({', '.join(map(kind_of, parts))})"
        return self.origins.first(parts) or Origin(Mechanism.EXPRESSION, name, reader.source.location(node))

    def computed(self, reader: Reader, node: ast.BinOp | ast.AugAssign, left: Value, right: Value, *rest: Any) -> Value:
        """What an arithmetic operator gives."""
        # Any: the code of both operands.
        made = self.original["computed"](reader, node, left, right, *rest)
        name = f"{type(node.op).__name__}({kind_of(left)}, {kind_of(right)})"
        plain = Origin(Mechanism.EXPRESSION, name, reader.source.location(node))
        return self.noted(made, lambda: self.origins.first([left, right]) or plain)

    def invoke(self, call: Call, callee: Value) -> Value:
        """What a call gives."""
        return self.noted(self.original["invoke"](call, callee), lambda: self._of_call(call, callee))

    def _of_call(self, call: Call, callee: Value) -> Origin:
        arguments = [argument.value for argument in (*call.positional, *call.keywords.values())]
        match callee:
            case Library(path=path):
                mechanism = Mechanism.MODELLED if function_at(path) else Mechanism.FUNCTION
            case Bound(function=None, receiver=receiver, name=name):
                mechanism = Mechanism.MODELLED if method_of(receiver, name) else Mechanism.METHOD
                arguments = [receiver, *arguments] if isinstance(receiver, Unknown) else arguments
            case LibraryObject():
                mechanism = Mechanism.METHOD
            case _:
                found = self.origins.find(callee)
                return after_call(found, call.location) if found else of_result(call, callee)
        # A function that lintrain knows returns Unknown because of what it was given.
        found = self.origins.first(arguments) if mechanism is Mechanism.MODELLED else None
        return found or Origin(mechanism, callee_name(callee), call.location)

    def attribute(self, reader: Reader, value: Value, name: str, location: Location) -> Value:
        """What `value.name` is."""
        made = self.original["attribute"](reader, value, name, location)
        return self.noted(made, lambda: self._of_attribute(value, name, location))

    def _of_attribute(self, owner: Value, name: str, location: Location) -> Origin:
        if isinstance(owner, Instance | Class):
            cls = owner.cls if isinstance(owner, Instance) else owner
            mechanism = Mechanism.UNKNOWN_BASE if cls.has_unknown_base else Mechanism.OWN_ATTRIBUTE
            return Origin(mechanism, f"{class_name(owner)}.{name}", location)
        return self.origins.find(owner) or Origin(Mechanism.ATTRIBUTE, f"{kind_of(owner)}.{name}", location)

    def subscript(self, reader: Reader, value: Value, key: Value, location: Location) -> Value:
        """What `value[key]` is."""
        made = self.original["subscript"](reader, value, key, location)
        return self.noted(made, lambda: self._of_subscript(value, key, location))

    def _of_subscript(self, owner: Value, key: Value, location: Location) -> Origin:
        plain = Origin(Mechanism.SUBSCRIPT, f"{kind_of(owner)}[{kind_of(key)}]", location)
        if isinstance(owner, Mapping | Sequence) and not isinstance(key, Constant):
            return plain  # the key is what is not known
        return self.origins.find(owner) or plain

    def child(self, reader: Reader, value: Value, name: str) -> Value:
        """The unknown thing that an unknown value has under a name."""
        known = self.origins.of.get(id(value))
        if type(value) is Unknown and not value.name and known is not None:
            # It stands for the shared UNKNOWN, whose children are UNKNOWN itself.
            return self.origins.note(UNKNOWN, known)
        made: Value = self.original["child"](reader, value, name)
        origin = self.origins.of_batch(value, _key(name)) if isinstance(value, Batch) else self.origins.find(value)
        return self.origins.note(made, with_attribute(origin, name)) if origin else made

    def element(self, reader: Reader, value: Value) -> Value:
        """What a loop over a value gets each time."""
        plain = Origin(Mechanism.LOOP, f"for … in {kind_of(value)}", value.origin)
        return self.noted(self.original["element"](reader, value), lambda: self._of_items(value) or plain)

    def _of_items(self, value: Value) -> Origin | None:
        path = getattr(value, "path", "")
        rows = Origin(Mechanism.ROWS, f"{path}[]", value.origin) if kind_of(value) == "TorchDataset" else None
        return self.origins.find(value) or rows

    def unpack(self, reader: Reader, value: Value, count: int, starred: int | None = None) -> list[Value]:
        """What each target of an assignment is bound to."""
        parts: list[Value] = self.original["unpack"](reader, value, count, starred)
        plain = Origin(Mechanism.UNPACKING, f"{count} = {row_kind(value)}", value.origin)
        return [self.noted(part, lambda: self.origins.find(value) or plain) for part in parts]

    def join(self, values: Iterable[Value]) -> Value:
        """One value for any of these."""
        given = list(values)
        joined: Value = self.original["join"](given)
        unknown = [option for value in given for option in options_of(value) if isinstance(option, Unknown)]
        found = self.origins.first(unknown)
        if joined is not UNKNOWN or (unknown and found is None):
            return joined  # without an origin: what asks for the join knows more
        many = Origin(Mechanism.BRANCHES, f"more than {python.MOST_OPTIONS} options")
        return self.origins.note(joined, found or many)

    def run_function(self, call: Call, function: Function, receiver: Value | None, *rest: Any) -> Value:
        """What one of the script's functions returns."""
        # Any: the class that has it, and what a context manager's function is given besides.
        made = self.original["run_function"](call, function, receiver, *rest)
        value = self.origins.note(made, of_result(call, function)) if made is UNKNOWN else made
        note_row(self.origins.items, function, receiver, value)
        return value

    def bind_parameters(self, call: Call, function: Function, receiver: Value | None, scope: Scope) -> None:
        """Bind a call's arguments to a function's parameters."""
        self.original["bind_parameters"](call, function, receiver, scope)
        is_alone = call.reader.uncalled and call.node is None
        mechanism = Mechanism.PARAMETER if is_alone else Mechanism.ARGUMENT
        method = f"{class_name(receiver)}.{function.name}" if isinstance(receiver, Instance) else ""
        for name, value in scope.names.items():
            if isinstance(value, Unknown) and self.origins.find(value) is None:
                self.origins.note(value, Origin(mechanism, f"{method}({name})" if method else name, function.origin))

    def entered(self, reader: Reader, manager: Value, item: ast.withitem) -> Value:
        """What `with manager as name` binds."""
        plain = Origin(Mechanism.WITH, kind_of(manager), reader.source.location(item.context_expr))
        made = self.original["entered"](reader, manager, item)
        return self.noted(made, lambda: self.origins.find(manager) or plain)


def _key(name: str) -> object:
    """What a batch was asked for, by the name that its child has: `[1]`, `['labels']`."""
    is_literal = name.startswith("[") and name.endswith("]") and name not in {"[]", "[:]"}
    return ast.literal_eval(name[1:-1]) if is_literal else None


@contextmanager
def traced() -> Generator[Origins]:
    """Keep the origins of the unknown values of what is read meanwhile."""
    origins = Origins()
    with ExitStack() as stack:
        for function, other in Tracer(origins).replacements.items():
            stack.enter_context(replaced(function, other))
        yield origins
