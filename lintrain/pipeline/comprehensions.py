"""Comprehensions: item by item where the items are known and few, else once for all of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from lintrain.pipeline import expressions, operations, targets
from lintrain.pipeline.scope import Scope
from lintrain.pipeline.values.python import Constant, Literal, Mapping, Value
from lintrain.pipeline.values.python import Sequence as SequenceValue

if TYPE_CHECKING:
    from lintrain.pipeline.reader import Reader

MOST_ITEMS = 32
"""Known items up to this number are gone through one by one."""


def evaluate_items(reader: Reader, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, scope: Scope) -> Value:
    """The sequence that a comprehension makes; complete where every item is known."""
    passes, is_complete = _passes(reader, node.generators, scope)
    items = [expressions.evaluate(reader, node.elt, inner) for inner in passes]
    return SequenceValue(items, "list", is_complete, origin=reader.source.place(node))


def evaluate_mapping(reader: Reader, node: ast.DictComp, scope: Scope) -> Value:
    """The dictionary that a comprehension makes; complete where every key is known."""
    entries: dict[Literal, Value] = {}
    passes, is_complete = _passes(reader, node.generators, scope)
    for inner in passes:
        key = expressions.evaluate(reader, node.key, inner)
        value = expressions.evaluate(reader, node.value, inner)
        if isinstance(key, Constant):
            entries[key.value] = value
        else:
            is_complete = False
    return Mapping(entries, is_complete, origin=reader.source.place(node))


def _passes(reader: Reader, generators: Sequence[ast.comprehension], scope: Scope) -> tuple[Iterator[Scope], bool]:
    """The scopes in which a comprehension's element is evaluated, one for each pass, and whether those are all."""
    first, *others = generators
    over = expressions.evaluate(reader, first.iter, scope)
    is_simple = not others and not first.ifs
    items = operations.known_items(over, MOST_ITEMS) if is_simple else None
    each = [operations.element(reader, over)] if items is None else items
    return (_one_pass(reader, generators, item, scope) for item in each), items is not None


def _one_pass(reader: Reader, generators: Sequence[ast.comprehension], item: Value, scope: Scope) -> Scope:
    inner = Scope(parent=scope)
    for position, generator in enumerate(generators):
        if position:
            item = operations.element(reader, expressions.evaluate(reader, generator.iter, inner))
        targets.assign(reader, generator.target, item, inner)
        for test in generator.ifs:
            expressions.evaluate(reader, test, inner)
    return inner
