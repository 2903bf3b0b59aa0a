"""Whether values are passed in another order than parameters of their names: `f(loader, net)` for `f(net, loader)`."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from itertools import combinations

from lintrain.startup.lazy_pattern import lazy_pattern

WORD = lazy_pattern(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")

COUNTERPARTS = tuple(
    frozenset(words.split())
    for words in (
        "in out input output inputs outputs",
        "src tgt dst trg source target destination",
        "left right first second one two top bottom up down",
        "real fake true false pred preds prediction predictions predicted target targets label labels gt out output",
        "pos neg positive negative anchor",
        "height width h w x y z row col rows cols column columns",
        "min max low high lower upper start end begin stop prev next old new before after",
        "query key value q k v student teacher encoder decoder text image",
    )
)
"""Words for the two sides of something, which are often exchanged on purpose: a network of the way back."""


def name_given(node: ast.expr) -> str:
    """The name of a variable or an attribute, without the underscore of a private one; empty for other code."""
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name.lstrip("_")


def are_moved(given: Sequence[str], names: Sequence[str]) -> bool:
    """Whether two or more values have the names of other parameters than those that get them.

    A value that is given twice, and names that are only the two sides of something, prove nothing.
    """
    taken = [(name, names[index]) for index, name in enumerate(given[: len(names)]) if name and name in names]
    moved = [name for name, taken_by in taken if name != taken_by]
    if len(moved) < FEWEST_MOVED or len({name for name in given if name}) < sum(map(bool, given)):
        return False
    return not all(are_counterparts(one, other) for one, other in combinations(moved, 2))


FEWEST_MOVED = 2


def are_counterparts(one: str, other: str) -> bool:
    """Whether two names differ by a letter, a number, or words for the two sides of something."""
    if min(len(one), len(other)) == 1:
        return True
    pairs = list(zip(_words(one), _words(other), strict=False))
    if len(pairs) != max(len(_words(one)), len(_words(other))):
        return False
    different = [{first, second} for first, second in pairs if first != second]
    return all(any(pair <= side for side in COUNTERPARTS) or all(map(_is_mark, pair)) for pair in different)


def _words(name: str) -> list[str]:
    return [word.lower() for word in WORD.findall(name)]


def _is_mark(word: str) -> bool:
    return len(word) == 1 or word.isdecimal()
