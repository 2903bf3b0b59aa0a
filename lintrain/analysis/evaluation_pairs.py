"""The pair of predictions and labels that a Trainer of transformers gives to a metric function."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.analysis.built_layers import last_name
from lintrain.analysis.swapped_results import SwappedResults
from lintrain.analysis.training_loops import words_of
from lintrain.model.location import Location
from lintrain.source.name_orders import name_given
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source

FUNCTION = "compute_metrics"
"""The argument of a Trainer, and the name that nearly all functions for it have."""

RETURNED = ("predictions", "label_ids")
"""The order of the pair (transformers 5.2: `EvalPrediction.__iter__`)."""

PREDICTED = frozenset(
    {"pred", "preds", "predicted", "prediction", "predictions", "logit", "logits", "output", "outputs"}
)
TRUE = frozenset({"label", "labels", "reference", "references", "refs", "target", "targets", "truth", "true"})


def swapped_predictions(source: Source) -> Iterator[SwappedResults]:
    """The metric functions that unpack the pair in the wrong order: `labels, predictions = pair`."""
    if FUNCTION not in source.text:
        return
    for function, pair in _metric_functions(source):
        for node in own_nodes(function):
            match node:
                case ast.Assign(targets=[ast.Tuple(elts=[one, other])], value=ast.Name(id=name)) if name == pair:
                    if _is_like(one, TRUE, PREDICTED) and _is_like(other, PREDICTED, TRUE):
                        yield SwappedResults(source.location(node.targets[0]), RETURNED, None)
                case _:
                    pass


def argmax_of_all(source: Source) -> Iterator[Location]:
    """The calls of metric functions that take one argmax over the scores of all rows: `np.argmax(pair.predictions)`."""
    if FUNCTION not in source.text or "argmax" not in source.text:
        return
    for function, pair in _metric_functions(source):
        scores = {f"{pair}.predictions"}
        for statement in own_nodes(function):
            if isinstance(statement, ast.Assign | ast.Return | ast.Expr) and statement.value is not None:
                calls = (node for node in walk(statement.value) if isinstance(node, ast.Call))
                yield from (source.location(call) for call in calls if _is_all(call, scores))
            if isinstance(statement, ast.Assign):
                scores = _scores_after(statement.targets[0], statement.value, pair, scores)


def _scores_after(target: ast.expr, value: ast.expr, pair: str, scores: set[str]) -> set[str]:
    """The code that holds the scores of all rows after an assignment."""
    names = [unparse(each) for each in (target.elts if isinstance(target, ast.Tuple) else [target])]
    given = unparse(value)
    if given == pair and len(names) == PAIR:
        return {*scores, names[0]}
    if given in scores or given in {f"{each}[0]" for each in (*scores, pair)}:
        return {*scores, *names}
    return scores - {*names}


PAIR = 2


def _is_all(call: ast.Call, scores: set[str]) -> bool:
    """Whether a call is an argmax without an axis, of the scores of all rows."""
    if last_name(call.func) != "argmax" or call.keywords:
        return False
    given = [*call.args]
    if isinstance(call.func, ast.Attribute) and not given:
        given = [call.func.value]
    return len(given) == 1 and unparse(given[0]) in scores


def bare_results(source: Source) -> Iterator[Location]:
    """What metric functions return on each of their paths, where it is a number or an array and no dictionary."""
    if FUNCTION not in source.text:
        return
    passed = source.cached(_passed)
    for function in (each for each, _ in _metric_functions(source) if each.name in passed):
        nodes = own_nodes(function)
        returned = [node.value for node in nodes if isinstance(node, ast.Return) and node.value is not None]
        if returned and all(_is_bare(value, nodes) for value in returned):
            yield source.location(returned[-1])


def _is_bare(value: ast.expr, nodes: Sequence[ast.AST]) -> bool:
    """Whether code certainly gives a number or an array: arithmetic, a score of a library, or a name for one."""
    match value:
        case ast.BinOp(op=operator):
            # Two dictionaries are joined by `|`.
            return not isinstance(operator, ast.BitOr)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in SCORES
        case ast.Name(id=name):
            given = [node for node in nodes if isinstance(node, ast.Name) and node.id == name]
            stores = [node for node in given if isinstance(node.ctx, ast.Store)]
            made = [node.value for node in nodes if isinstance(node, ast.Assign) and _is_name(node.targets[0], name)]
            return len(stores) == len(made) == 1 and not isinstance(made[0], ast.Name) and _is_bare(made[0], nodes)
        case _:
            return False


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


SCORES = frozenset(
    {"accuracy_score", "f1_score", "item", "mean", "mean_squared_error", "precision_score", "recall_score"}
)
"""Functions and methods that give a number."""


def _metric_functions(source: Source) -> Iterator[tuple[ast.FunctionDef, str]]:
    """The functions of a file that a Trainer gets for its metrics, with the name of the pair."""
    passed = source.cached(_passed)
    for function in source.nodes_of(ast.FunctionDef):
        pair = _pair_of(function, is_passed=function.name in passed) if _is_metric(source, function) else None
        if pair is not None:
            yield function, pair


def _is_metric(source: Source, function: ast.FunctionDef) -> bool:
    """Whether a Trainer gets a function: by its argument, or by its name if the script itself never calls it."""
    if function.name in source.cached(_passed):
        return True
    is_imported = "transformers" in source.text
    return function.name == FUNCTION and is_imported and FUNCTION not in source.cached(_called)


def _passed(source: Source) -> frozenset[str]:
    """The names that the calls of a file give as the metric function."""
    given = (node.value for node in source.nodes_of(ast.keyword) if node.arg == FUNCTION)
    return frozenset(node.id for node in given if isinstance(node, ast.Name))


def _called(source: Source) -> frozenset[str]:
    return frozenset(last_name(node.func) for node in source.nodes_of(ast.Call))


def _pair_of(function: ast.FunctionDef, *, is_passed: bool) -> str | None:
    """The parameter that gets the pair: the only one that the caller has to give."""
    names = [each.arg for each in function.args.args]
    if names[:1] == ["self"]:
        names = names[1:]
    required = names[: len(names) - len(function.args.defaults)]
    is_named = is_passed or len(names) == 1
    return required[0] if len(required) == 1 and is_named else None


def _is_like(node: ast.expr, kind: frozenset[str], other: frozenset[str]) -> bool:
    """Whether a name is of one kind and not of the other."""
    words = words_of(name_given(node))
    return bool(words & kind) and not words & other
