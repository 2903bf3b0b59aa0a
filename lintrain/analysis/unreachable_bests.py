"""Losses that are compared with a lowest one that starts at 0, below which no loss is, so no model is the best.

`best_loss = 0.0`, and in each epoch `if loss < best_loss:`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import script_text
from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

LOWEST = lazy_pattern(r"(?i)(?:best|lowest|min)\w*(?:loss|error)|(?:loss|error)\w*(?:best|lowest|min)")
LOSS = lazy_pattern(r"(?i)loss|error")
NOT_NEGATIVE = lazy_pattern(
    r"\b(?:CrossEntropyLoss|cross_entropy|MSELoss|mse_loss|L1Loss|l1_loss|SmoothL1Loss|smooth_l1_loss|HuberLoss|huber_loss|"
    r"BCELoss|BCEWithLogitsLoss|binary_cross_entropy\w*|NLLLoss|AutoModelFor\w+|BertFor\w+)\b"
)
MAY_BE_NEGATIVE = lazy_pattern(
    r"return -|[lL]oss\w* = -|-= |log_prob"
    r"|(?i:elbo|cosine_?(?:similarity|embedding)|gaussian_?nll|likelihood|score_matching|policy|reward)"
)


@dataclass(frozen=True, slots=True)
class UnreachableBest:
    """The start of a lowest loss, its name, and the comparison that is never true."""

    location: Location
    best: str
    test: Location


def unreachable_bests(pipeline: Pipeline) -> Iterator[UnreachableBest]:
    """The lowest losses of a script that start at 0, if all comparisons ask for a lower one."""
    source = pipeline.source
    if not source.contains(LOWEST) or source.contains(MAY_BE_NEGATIVE):
        return
    if script_text.mentions(pipeline, NOT_NEGATIVE):
        yield from source.cached(_unreachable)


def _unreachable(source: Source) -> list[UnreachableBest]:
    stores: dict[str, list[ast.expr]] = {}
    for node in source.nodes_of(ast.Assign):
        match node.targets:
            case [ast.Name() | ast.Attribute() as target] if LOWEST.search(unparse(target)):
                stores.setdefault(unparse(target), []).append(node.value)
            case _:
                pass
    found = ((name, _test_never_true(source, name, values)) for name, values in stores.items())
    return [
        UnreachableBest(source.location(next(filter(_is_zero, stores[name]))), name, source.location(test))
        for name, test in found
        if test is not None
    ]


def _test_never_true(source: Source, best: str, stored: list[ast.expr]) -> ast.Compare | None:
    """The first comparison with a lowest loss, if none is ever true: it starts at 0, and is else what was lower."""
    tests = [node for node in source.nodes_of(ast.Compare) if best in _names(node)]
    values = {value for test in tests if (value := _lower_than(test, best)) is not None}
    are_all_lower = bool(tests) and all(_lower_than(test, best) for test in tests) and all(map(LOSS.search, values))
    others = [value for value in stored if not _is_zero(value)]
    if not are_all_lower or not others or len(stored) - len(others) != 1:
        return None
    is_kept = all(unparse(value) in values or _is_of_checkpoint(value) for value in others)
    alone = source.cached(_tests_alone)
    return tests[0] if is_kept and all(id(test) in alone for test in tests) else None


def _names(node: ast.Compare) -> set[str]:
    return {unparse(each) for each in walk(node) if isinstance(each, ast.Name | ast.Attribute)}


def _lower_than(test: ast.Compare, best: str) -> str | None:
    """The code of the value in `value < best`; None for other comparisons."""
    match test:
        case ast.Compare(left=left, ops=[ast.Lt()], comparators=[right]) if unparse(right) == best:
            return unparse(left)
        case ast.Compare(left=left, ops=[ast.Gt()], comparators=[right]) if unparse(left) == best:
            return unparse(right)
        case _:
            return None


def _is_zero(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, int | float) and value.value == 0


def _is_of_checkpoint(value: ast.expr) -> bool:
    """Whether a value comes from an earlier run: `checkpoint["best_loss"]`, or `checkpoint.get("best_loss", 0.0)`."""
    return isinstance(value, ast.Subscript) or (
        isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "get"
    )


def _tests_alone(source: Source) -> set[int]:
    """The comparisons that decide a branch by themselves, or with others that all have to hold."""
    found: set[int] = set()
    for node in source.nodes_of(ast.If):
        match node.test:
            case ast.BoolOp(op=ast.And(), values=values):
                found.update(map(id, values))
            case test:
                found.add(id(test))
    return found
