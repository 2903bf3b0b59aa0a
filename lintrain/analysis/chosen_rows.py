"""Predicted classes that are chosen along the wrong axis: over the rows of a batch, or over all scores at once."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from lintrain.analysis.batch_scores import Batches, batches_in
from lintrain.analysis.built_layers import last_name
from lintrain.analysis.class_choices import (
    CHOOSING,
    MODULES,
    Use,
    axis_of,
    bare,
    classes_or_scores,
    followed,
    holds_one,
    is_choice,
    is_chosen_along_classes,
    scores_of,
    uses,
    values_of,
)
from lintrain.analysis.loader_loops import loops_over_loaders
from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.source.training_syntax import imported_packages
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

MOVES = frozenset({"to", "cuda", "long", "float", "cpu", "numpy", "detach", "data"})

ONE_ROW = lazy_pattern(r"batch_size\s*=\s*(?:1\b|None)")
NO_ROWS = lazy_pattern(r"batch_size\s*=\s*None")
"""A loader whose batches have a single row, or no axis for rows."""


@dataclass(frozen=True, slots=True)
class ChosenRows:
    """A choice along the wrong axis: where, where its result meets the targets, and whether it has an axis at all."""

    location: Location
    compared: Location
    has_axis: bool


HAVE_METRICS = frozenset({"datasets", "evaluate", "sklearn"})
"""Libraries with metrics for classes."""


def may_measure_choices(source: Source) -> bool:
    """Whether a file imports a library with metrics, and names what chooses classes in its code."""
    return not HAVE_METRICS.isdisjoint(imported_packages(source)) and (
        any(node.attr in CHOOSING for node in source.nodes_of(ast.Attribute))
        or any(node.name in CHOOSING for node in source.nodes_of(ast.alias))
    )


def chosen_rows(source: Source) -> list[ChosenRows]:
    """The choices in a file over the rows of a batch whose results are compared with the targets of its rows."""
    return source.cached(_chosen_rows)


def _chosen_rows(source: Source) -> list[ChosenRows]:
    lines = [call.lineno for call in source.nodes_of(ast.Call) if is_choice(call)]
    if not lines:
        return []
    functions = (each for each in source.nodes_of(ast.FunctionDef) if holds_one(each, lines))
    found = list[ChosenRows]()
    for scope in (source.tree, *functions):
        nodes = own_nodes(scope)
        values, batches = values_of(nodes), batches_in(source, scope)
        for use in uses(nodes):
            call = _choice(followed(use.chosen, values))
            if call is None or (axis_of(call) is None and (not use.has_many or source.contains(ONE_ROW))):
                continue
            scores = scores_of(call)
            if (
                _meets_classes(source, use, scores, values)
                or _has_same_rows(scores, use, values)
                or (
                    not is_chosen_along_classes(nodes, scores)
                    and (
                        _compares_rows(source, scope, followed(scores, values), use, values)
                        or _meets_targets(source, batches, scores, use)
                    )
                )
            ):
                found.append(ChosenRows(source.location(call), source.location(use.node), axis_of(call) is not None))
    return found


def _compares_rows(
    source: Source, scope: ast.AST, scores: ast.expr, use: Use, values: Mapping[str, Sequence[ast.expr]]
) -> bool:
    """Whether a comparison is of the classes of some rows with their targets."""
    same = bare(followed(use.target, values))  # `labels` of `wanted = labels.flatten()`
    named = next((each for each in (same, use.target) if isinstance(each, ast.Name)), None)
    target = named.id if named is not None and use.is_comparison else ""
    return bool(target) and _are_of_rows(source, scope, scores, target, values)


def _meets_targets(source: Source, batches: Batches, scores: ast.expr, use: Use) -> bool:
    """Whether scores and targets are of the same batch, or both go to a loss, and hits among several are counted."""
    if source.contains(NO_ROWS):
        return False
    if batches.is_part(classes_or_scores(use.target)) and batches.has_scores(scores):
        return True
    return use.is_counted and (unparse(scores), unparse(use.target)) in batches.losses


def _meets_classes(source: Source, use: Use, scores: ast.expr, values: Mapping[str, Sequence[ast.expr]]) -> bool:
    """Whether the other side of a comparison chooses a class for each row, along axis 1 of other numbers."""
    target = bare(followed(use.target, values))
    of_rows = target.value if isinstance(target, ast.Subscript) else target  # `torch.max(labels, 1)[1]`
    collects = isinstance(use.node, ast.Call) and last_name(use.node.func) == "extend" and "pred" in unparse(use.node)
    is_pair = use.is_comparison or collects
    if not is_pair or not isinstance(of_rows, ast.Call) or last_name(of_rows.func) not in CHOOSING:
        return False
    is_other = unparse(scores_of(of_rows)) != unparse(scores)
    return axis_of(of_rows) == 1 and is_other and not source.contains(ONE_ROW)


def _has_same_rows(scores: ast.expr, use: Use, values: Mapping[str, Sequence[ast.expr]]) -> bool:
    """Whether the same index takes the rows of scores and of targets: `logits[mask]` and `labels[mask]`."""
    match bare(scores), bare(followed(use.target, values)):
        case ast.Subscript(slice=ast.Name() | ast.Attribute() as one), ast.Subscript(slice=other):
            return unparse(one) == unparse(other) and "mask" in unparse(one).lower()
        case _:
            return False


def _choice(node: ast.expr) -> ast.Call | None:
    """The call that chooses among scores along the first axis, or among all of them."""
    match bare(node):
        case ast.Subscript(value=ast.Call(func=ast.Attribute(attr="max")) as call, slice=ast.Constant(value=1)):
            return call if is_choice(call) else None
        case ast.Call(func=ast.Attribute(attr="argmax")) as call:
            return call if is_choice(call) else None
        case _:
            return None


def _are_of_rows(
    source: Source,
    scope: ast.AST,
    scores: ast.expr,
    target: str,
    values: Mapping[str, Sequence[ast.expr]],
    *,
    depth: int = 0,
) -> bool:
    """Whether scores are what a network gives for a batch, and a target has the class of each of its rows."""
    if isinstance(scores, ast.Name) and isinstance(scope, ast.FunctionDef) and depth == 0:
        return _are_given_rows(source, scope, scores.id, target)
    match scores:
        case ast.Call(func=ast.Name() | ast.Attribute(value=ast.Name()), args=[ast.Name(id=inputs), *_], keywords=[]):
            callee = unparse(scores.func)
        case _:
            return False
    if callee.rpartition(".")[0] in MODULES | {"F", "tf"} or callee[:1].isupper():
        return False
    return _come_in_batches(source, scope, {inputs, target}) or _is_row_of_classes(values, target)


def _are_given_rows(source: Source, function: ast.FunctionDef, scores: str, target: str) -> bool:
    """Whether every call of a function gives it the scores and targets of a batch."""
    names = [each.arg for each in function.args.args]
    if scores not in names or target not in names:
        return False
    answers = list[bool]()
    for scope in (source.tree, *source.nodes_of(ast.FunctionDef)):
        nodes = own_nodes(scope)
        calls = [each for each in nodes if isinstance(each, ast.Call) and unparse(each.func) == function.name]
        if not calls:
            continue
        values, batches = values_of(nodes), batches_in(source, scope)
        for call in calls:
            given = dict(zip(names, call.args, strict=False))
            given |= {each.arg: each.value for each in call.keywords if each.arg}
            of, to = given.get(scores), given.get(target)
            if of is not None and to is not None and batches.has_scores(of) and batches.is_part(to):
                answers.append(not source.contains(NO_ROWS))
                continue
            is_known = of is not None and isinstance(to, ast.Name)
            answers.append(
                is_known and _are_of_rows(source, scope, followed(of, values), to.id, values, depth=1)  # type: ignore[union-attr, arg-type]
            )
    return bool(answers) and all(answers)


def _come_in_batches(source: Source, scope: ast.AST, names: set[str]) -> bool:
    """Whether a loop over a loader gives these names, which nothing but a move to another device binds again."""
    inside = {id(node) for node in own_nodes(scope)}
    for loop, _ in source.cached(loops_over_loaders):
        bound = {each.id for each in walk(loop.target) if isinstance(each, ast.Name)}
        if id(loop) in inside and names <= bound and not source.contains(ONE_ROW):
            return not any(_changes(node, names) for node in walk(loop))
    return False


def _changes(node: ast.AST, names: set[str]) -> bool:
    """Whether a statement gives a name something else than the same tensor in another place or type."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in names:
            while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in MOVES:
                value = value.func.value
            return not (isinstance(value, ast.Name) and value.id == name)
        case ast.AugAssign(target=ast.Name(id=name)):
            return name in names
        case _:
            return False


def _is_row_of_classes(values: Mapping[str, Sequence[ast.expr]], target: str) -> bool:
    """Whether a name holds one class for each of several rows: `torch.randint(3, (90,))`."""
    match values.get(target):
        case [ast.Call(func=ast.Attribute(attr="randint"), args=[*_, ast.Tuple(elts=[_])])]:
            return True
        case _:
            return False
