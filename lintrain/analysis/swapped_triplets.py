"""Triplet losses of torch that get the negative example in the place of the positive one, by their names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.analysis import loss_terms
from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

TRIPLET = lazy_pattern(r"Triplet\w*Loss\(|triplet_margin")
MAKES = frozenset({"TripletMarginLoss", "TripletMarginWithDistanceLoss"})
CALLS = frozenset({"triplet_margin_loss", "triplet_margin_with_distance_loss"})

POSITIVE = lazy_pattern(r"(?i)(?:^|[._])(?:pos|positives?)(?:[_\d.]|$)")
NEGATIVE = lazy_pattern(r"(?i)(?:^|[._])(?:neg|negatives?)(?:[_\d.]|$)")


@dataclass(frozen=True, slots=True)
class SwappedTriplet:
    """A call of a triplet loss, with the locations and the code of its second and third argument."""

    location: Location
    second: Location
    third: Location
    negative: str
    positive: str


def swapped_triplets(source: Source) -> Iterator[SwappedTriplet]:
    """The calls of triplet losses whose second argument is a negative example and whose third is a positive one."""
    if not source.contains(TRIPLET):
        return
    for call in source.nodes_of(ast.Call):
        if len(call.args) != 3 or not _is_triplet_loss(source, call.func):
            continue
        second, third = call.args[1], call.args[2]
        if _is_only(second, NEGATIVE, POSITIVE) and _is_only(third, POSITIVE, NEGATIVE):
            yield SwappedTriplet(
                source.location(call), source.location(second), source.location(third), unparse(second), unparse(third)
            )


def _is_triplet_loss(source: Source, callee: ast.expr) -> bool:
    if last_name(callee) in CALLS:
        return True
    made = [callee] if isinstance(callee, ast.Call) else loss_terms.assigned(source, unparse(callee))
    return bool(made) and all(isinstance(each, ast.Call) and last_name(each.func) in MAKES for each in made)


def _is_only(node: ast.expr, pattern: re.Pattern[str], other: re.Pattern[str]) -> bool:
    """Whether an expression is a name of the one kind of example and not of the other."""
    if not isinstance(node, ast.Name | ast.Attribute):
        return False
    code = unparse(node)
    return pattern.search(code) is not None and other.search(code) is None
