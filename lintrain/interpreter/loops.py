"""Loops: run once, with what happens in them marked as repeated.

Comprehensions run item by item where the items are known and few, else once for all of them. So do some loops
over a few names (`unrolling`).
"""

from __future__ import annotations

import ast
from collections import abc
from collections.abc import Iterator
from dataclasses import replace

from lintrain.interpreter.core import dispatch, operations, storing
from lintrain.interpreter.core.items import any_of
from lintrain.interpreter.core.reader import Flow, Reader
from lintrain.interpreter.core.registry import expression, statement
from lintrain.interpreter.core.scope import Changes, Scope
from lintrain.interpreter.core.storing import assign, assigned_names
from lintrain.interpreter.retention import rebound
from lintrain.interpreter.unrolling import items_to_unroll, unroll
from lintrain.model.location import Location
from lintrain.pipeline.events import Loop
from lintrain.pipeline.values.data import ColumnNames, Features
from lintrain.pipeline.values.model import Module, Tensor
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Constant,
    Literal,
    Mapping,
    Sequence,
    Unknown,
    Value,
    text_of,
)
from lintrain.startup.lazy_dataclass import dataclass


@statement(ast.For, ast.AsyncFor)
def execute_for(reader: Reader, node: ast.For | ast.AsyncFor, scope: Scope) -> Flow:
    """`for`: its element bound to the target, its body run once; one over a few names runs for each of them."""
    over = dispatch.evaluate(reader, node.iter, scope)
    items = items_to_unroll(reader, node, over, scope)
    if items is not None:
        return unroll(reader, node, items, scope)
    each = dispatch.element(reader, over)
    header = reader.code(reader.source.location(node.iter))
    loop = Loop(
        reader.source.location(node),
        over,
        each,
        header,
        _body_location(reader, node.body),
        reader.once(_rebound, node),
    )
    _forget_changing(reader, node, scope)
    # Before the target is bound, so that without an iteration the target too is what it was.
    start = len(scope.journal)
    assign(reader, node.target, each, scope)
    return _execute_loop(reader, loop, node.body, node.orelse, scope, start, runs=_holds_something(over))


def _holds_something(over: Value) -> bool:
    """Whether a loop over a value certainly runs: a list, dictionary or container of layers that is not empty."""
    match over:
        case Sequence(items=held, is_complete=True) | Module(parts=held):
            return bool(held)
        case Mapping(entries=entries, is_complete=True):
            return bool(entries)
        case _:
            return False


@statement(ast.While)
def execute_while(reader: Reader, node: ast.While, scope: Scope) -> Flow:
    """`while`: its body run once, unless the test is certainly false."""
    _forget_changing(reader, node, scope)
    test = dispatch.evaluate(reader, node.test, scope)
    if operations.truth(test) is False:
        return dispatch.execute_block(reader, node.orelse, scope)
    header = reader.code(reader.source.location(node.test))
    loop = Loop(
        reader.source.location(node),
        UNKNOWN,
        UNKNOWN,
        header,
        _body_location(reader, node.body),
        reader.once(_rebound, node),
    )
    return _execute_loop(reader, loop, node.body, node.orelse, scope, len(scope.journal))


def _body_location(reader: Reader, body: abc.Sequence[ast.stmt]) -> Location:
    return reader.source.location(body[0])


def _execute_loop(
    reader: Reader,
    loop: Loop,
    body: abc.Sequence[ast.stmt],
    orelse: abc.Sequence[ast.stmt],
    scope: Scope,
    start: int,
    *,
    runs: bool = False,
) -> Flow:
    reader.record.loops.append(loop)
    reader.loops.append(loop)
    frame = reader.frame
    # Kept for the loop outside: `break` and `continue` belong to the innermost loop of the frame.
    outer, frame.exits, frame.loop_start = (frame.exits, frame.loop_start), [], start
    flow = dispatch.execute_block(reader, body, scope)
    exits = frame.exits
    frame.exits, frame.loop_start = outer
    reader.loops.pop()
    changes = reader.undo(scope, start)
    # Each `break` and `continue` left the body with other names. All of them are ways to leave the loop,
    # besides its end.
    ends = [*exits, changes] if flow is Flow.ON else exits
    # The body may run no time at all, so the names of before are one of the branches, unless the loop certainly
    # runs. The body is read once and stands for all iterations: what the second iteration sees of the first is what
    # `_forget_changing` and rules about loops are for.
    scope.apply(scope.joined(ends if runs and ends else [_without_body(scope, ends), *ends]))
    return dispatch.execute_block(reader, orelse, scope)


def _without_body(scope: Scope, ends: abc.Sequence[Changes]) -> Changes:
    """What a loop leaves that never runs: a body that bound a name over `None` is taken to have run."""
    # `best = None` before the loop and `best = model` in it: taken literally, every later use of `best`
    # might be None. `loss = 0` before it and `loss += criterion(…)` in it: `loss.backward()` needs a
    # tensor. People write this for loops that do run.
    bound = {name: value for end in ends for name, value in end.items() if value is not scope.names.get(name)}
    return {name: None for name, value in bound.items() if _starts(scope.names.get(name), value)}


def _starts(before: Value | None, value: Value | None) -> bool:
    """Whether a value of before the loop only stands there until the body binds the name."""
    if isinstance(before, Constant):
        return before.value is None
    return isinstance(before, Forgotten) and isinstance(value, Tensor)


@dataclass(eq=False, slots=True)
class Forgotten(Unknown):
    """A number that a loop changes: another one in each iteration."""


ForOrWhile = ast.For | ast.AsyncFor | ast.While


def _rebound(node: ForOrWhile) -> frozenset[str]:
    return rebound(node.body)


def _assigned(node: ForOrWhile) -> tuple[str, ...]:
    return tuple(assigned_names(node.body))


def _forget_changing(reader: Reader, node: ForOrWhile, scope: Scope) -> None:
    """A constant that the loop's body assigns is another one in each iteration."""
    for name in reader.once(_assigned, node):
        known = scope.names.get(name)
        # `step = 0` before `while`, `step += 1` inside: reading the body with 0 would decide `if step == 0`
        # for all iterations.
        if isinstance(known, Constant) and known.value is not None:
            is_number = isinstance(known.value, int | float)
            scope.put(name, Forgotten(name=name) if is_number else Unknown(name=name))


MOST_ITEMS = 32
"""Known items up to this number are gone through one by one."""


@dataclass(eq=False, slots=True)
class _Passes:
    """The scopes in which a comprehension's element is evaluated; `is_complete` while those are certainly all."""

    reader: Reader
    generators: abc.Sequence[ast.comprehension]
    is_complete: bool = True
    count: int = 0
    names: ColumnNames | None = None
    """The names of columns that it goes through, if it goes through such."""

    def scopes(self, outer: Scope, position: int = 0, *, apart: bool = False) -> Iterator[Scope]:
        """One scope for each pass, from the generator at a position inwards.

        With `apart` the items that are known come one by one, though others may be there.
        """
        if position == len(self.generators):
            self.count += 1
            yield outer
            return
        generator = self.generators[position]
        for item in self._items(dispatch.evaluate(self.reader, generator.iter, outer), apart=apart):
            # Counted over all generators together: `[f(a, b) for a in x for b in y]` has as many passes as
            # both multiply to.
            if self.count >= MOST_ITEMS:
                self.is_complete = False
                return
            # A comprehension has names of its own in Python 3: its target must not overwrite a name around
            # it.
            inner = Scope(parent=outer)
            storing.assign(self.reader, generator.target, item, inner)
            if self._passes_tests(generator, inner):
                yield from self.scopes(inner, position + 1, apart=apart)

    def _items(self, over: Value, *, apart: bool) -> list[Value]:
        over = over.names if isinstance(over, Features) else over
        self.names = over if isinstance(over, ColumnNames) else None
        items = operations.known_items(over, MOST_ITEMS)
        self.is_complete = self.is_complete and items is not None
        if apart and items is None and isinstance(over, Sequence) and all(map(_is_entry, over.items)):
            others = [] if over.is_closed else [Sequence([Unknown(), Unknown()], "tuple")]
            return [*over.items[:MOST_ITEMS], *others]
        # One pass with the element that stands for all, so that calls inside are recorded once.
        return [dispatch.element(self.reader, over)] if items is None else items

    def _passes_tests(self, generator: ast.comprehension, scope: Scope) -> bool:
        """Whether an item may pass the tests of its generator."""
        for test in generator.ifs:
            holds = operations.truth(dispatch.evaluate(self.reader, test, scope))
            self.is_complete = self.is_complete and holds is not None
            if holds is False:
                return False
        return True


def _is_entry(item: Value) -> bool:
    """Whether an item is a key with its value, as `items()` gives them."""
    return isinstance(item, Sequence) and len(item.items) == 2 and isinstance(item.items[0], Constant | Unknown)


@expression(ast.ListComp, ast.SetComp, ast.GeneratorExp)
def evaluate_items(reader: Reader, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, scope: Scope) -> Value:
    """The sequence that a comprehension makes; complete where every item is known."""
    passes = _Passes(reader, node.generators)
    items = [dispatch.evaluate(reader, node.elt, inner) for inner in passes.scopes(scope)]
    if passes.names is not None and (left := _names_left(reader, node, passes.names, scope)) is not None:
        return left
    return Sequence(items, "list", passes.is_complete, origin=reader.source.location(node))


def _names_left(
    reader: Reader, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, names: ColumnNames, scope: Scope
) -> ColumnNames | None:
    """`[name for name in data.column_names if name not in ("text", "label")]`; None for any other comprehension."""
    generator = node.generators[0]
    match node.elt, generator.target:
        case ast.Name(id=item), ast.Name(id=target) if item == target and len(node.generators) == 1:
            pass
        case _:
            return None
    without = names.without
    for test in generator.ifs:
        match test:
            case ast.Compare(left=ast.Name(id=tested), ops=[ast.NotIn() | ast.NotEq() as kind], comparators=[other]):
                given = dispatch.evaluate(reader, other, scope)
            case _:
                return None
        known = [given] if isinstance(kind, ast.NotEq) else operations.known_items(given, MOST_ITEMS)
        texts = [each for each in map(text_of, known or ()) if each is not None]
        if known is None or len(texts) < len(known) or tested != target:
            return None
        without |= set(texts)
    return replace(names, without=without)


@expression(ast.DictComp)
def evaluate_mapping(reader: Reader, node: ast.DictComp, scope: Scope) -> Value:
    """The dictionary that a comprehension makes; complete where every key is known."""
    entries: dict[Literal, Value] = {}
    others: list[Value] = []
    passes = _Passes(reader, node.generators)
    for inner in passes.scopes(scope, apart=True):
        key = dispatch.evaluate(reader, node.key, inner)
        value = dispatch.evaluate(reader, node.value, inner)
        if isinstance(key, Constant):
            entries[key.value] = value
        else:
            others.append(value)
    is_complete = passes.is_complete and not others
    # Of keys that are not known the values are: `{name: load(name) for name in names}`.
    any_other = any_of(others) if others else None
    return Mapping(entries, is_complete, others=any_other, origin=reader.source.location(node))
