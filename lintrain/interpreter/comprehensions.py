"""Comprehensions: item by item where the items are known and few, else once for all of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.interpreter import targets
from lintrain.interpreter.core import dispatch, operations
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import expression
from lintrain.interpreter.core.scope import Scope
from lintrain.pipeline.values.python import Constant, Literal, Mapping, Value
from lintrain.pipeline.values.python import Sequence as SequenceValue
from lintrain.startup.lazy_dataclass import dataclass

MOST_ITEMS = 32
"""Known items up to this number are gone through one by one."""


@dataclass(eq=False, slots=True)
class _Passes:
    """The scopes in which a comprehension's element is evaluated; `is_complete` while those are certainly all."""

    reader: Reader
    generators: Sequence[ast.comprehension]
    is_complete: bool = True
    count: int = 0

    def scopes(self, outer: Scope, position: int = 0) -> Iterator[Scope]:
        """One scope for each pass, from the generator at a position inwards."""
        if position == len(self.generators):
            self.count += 1
            yield outer
            return
        generator = self.generators[position]
        for item in self._items(dispatch.evaluate(self.reader, generator.iter, outer)):
            # Counted over all generators together: `[f(a, b) for a in x for b in y]` has as many passes as
            # both multiply to.
            if self.count >= MOST_ITEMS:
                self.is_complete = False
                return
            # A comprehension has names of its own in Python 3: its target must not overwrite a name around
            # it.
            inner = Scope(parent=outer)
            targets.assign(self.reader, generator.target, item, inner)
            if self._passes_tests(generator, inner):
                yield from self.scopes(inner, position + 1)

    def _items(self, over: Value) -> list[Value]:
        items = operations.known_items(over, MOST_ITEMS)
        self.is_complete = self.is_complete and items is not None
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


@expression(ast.ListComp, ast.SetComp, ast.GeneratorExp)
def evaluate_items(reader: Reader, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, scope: Scope) -> Value:
    """The sequence that a comprehension makes; complete where every item is known."""
    passes = _Passes(reader, node.generators)
    items = [dispatch.evaluate(reader, node.elt, inner) for inner in passes.scopes(scope)]
    return SequenceValue(items, "list", passes.is_complete, origin=reader.source.location(node))


@expression(ast.DictComp)
def evaluate_mapping(reader: Reader, node: ast.DictComp, scope: Scope) -> Value:
    """The dictionary that a comprehension makes; complete where every key is known."""
    entries: dict[Literal, Value] = {}
    passes = _Passes(reader, node.generators)
    keys_are_known = True
    for inner in passes.scopes(scope):
        key = dispatch.evaluate(reader, node.key, inner)
        value = dispatch.evaluate(reader, node.value, inner)
        if isinstance(key, Constant):
            entries[key.value] = value
        else:
            keys_are_known = False
    return Mapping(entries, passes.is_complete and keys_are_known, origin=reader.source.location(node))
