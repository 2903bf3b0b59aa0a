"""Embeddings of Keras with fewer rows than the vocabulary of the texts that they get."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.by_name import calls_of
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

VOCABULARIES = {"TextVectorization": "max_tokens", "Tokenizer": "num_words", "load_data": "num_words"}
"""What gives texts as numbers of words, with the argument for how many numbers there are."""


@dataclass(frozen=True, slots=True)
class TooFewRows:
    """An embedding with fewer rows than its texts have words: where, both numbers, and where the words are counted."""

    location: Location
    rows: int
    numbers: int
    counted: Location


def too_few_rows(source: Source) -> Iterator[TooFewRows]:
    """The only embedding of a file, whose only vocabulary is larger; positions and categories have one of their own."""
    embeddings = list(calls_of(source, frozenset({"Embedding"})))
    if len(embeddings) != 1:
        return
    given = [found for call in calls_of(source, frozenset(VOCABULARIES)) if (found := _given(call)) is not None]
    first = _first(embeddings[0])
    if len(given) != 1 or first is None:
        return
    rows, words = _number(source, first), _number(source, given[0])
    if rows is not None and words is not None and rows < words:
        yield TooFewRows(source.location(first), rows, words, source.location(given[0]))


def _given(call: ast.Call) -> ast.expr | None:
    """The expression for the number of words, of a call that makes a vocabulary."""
    wanted = VOCABULARIES[last_name(call.func) or ""]
    named = next((each.value for each in call.keywords if each.arg == wanted), None)
    is_by_position = bool(call.args) and last_name(call.func) != "load_data"
    return named or (call.args[0] if is_by_position else None)


def _first(embedding: ast.Call) -> ast.expr | None:
    named = (each.value for each in embedding.keywords if each.arg == "input_dim")
    return embedding.args[0] if embedding.args else next(named, None)


def _number(source: Source, node: ast.expr) -> int | None:
    """A literal number, also of a name that a file binds once."""
    match node:
        case ast.Constant(value=int() as number):
            return number
        case ast.Name(id=name):
            stored = [each for each in source.nodes_of(ast.Name) if each.id == name and isinstance(each.ctx, ast.Store)]
            bound = [*stored, *(each for each in source.nodes_of(ast.arg) if each.arg == name)]
            values = [each.value for each in source.nodes_of(ast.Assign) if _binds(each, name)]
            return _number(source, values[0]) if len(bound) == len(values) == 1 and values[0] is not node else None
        case _:
            return None


def _binds(node: ast.Assign, name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
