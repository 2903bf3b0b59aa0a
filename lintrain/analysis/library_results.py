"""Results of libraries that are unpacked in another order than they are returned in."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis.built_layers import last_name
from lintrain.analysis.swapped_results import SwappedResults
from lintrain.analysis.training_loops import words_of
from lintrain.source.name_orders import name_given
from lintrain.source.nodes import unparse
from lintrain.source.source import Source

START, END = frozenset({"start", "starts", "begin"}), frozenset({"end", "ends", "stop"})
LOSS, SCORE = frozenset({"loss"}), frozenset({"acc", "accuracy", "auc", "f1", "mae", "mse"})
HIDDEN, CELL = frozenset({"h", "hn", "h0", "hidden"}), frozenset({"c", "cn", "c0", "cell"})


def swapped_library_results(source: Source) -> Iterator[SwappedResults]:
    """The assignments that swap the two scores of an answer, the results of `evaluate`, or the states of an LSTM."""
    is_of_answers = source.contains(r"QuestionAnswering")
    for node in source.nodes_of(ast.Assign):
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=[first, second])], value=value):
                pass
            case _:
                continue
        if is_of_answers and _is_of_answers(value) and _are_swapped(first, second, START, END):
            yield SwappedResults(source.location(node.targets[0]), ("start_logits", "end_logits"), None)
        elif _is_keras_evaluation(source, value) and _are_swapped(first, second, LOSS, SCORE):
            yield SwappedResults(source.location(node.targets[0]), ("loss", "metric"), None)
        elif isinstance(second, ast.Tuple) and _is_lstm(source, value) and len(second.elts) == PAIR:
            hidden, cell = second.elts
            if _are_swapped(hidden, cell, HIDDEN, CELL):
                yield SwappedResults(source.location(second), ("hidden", "cell"), None)


PAIR = 2


def _are_swapped(first: ast.expr, second: ast.expr, one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether the first of two names has a word of the second result, and the second one of the first."""
    words, more = words_of(name_given(first)), words_of(name_given(second))
    return bool(words & other and more & one) and not words & one and not more & other


def _is_of_answers(value: ast.expr) -> bool:
    """`trainer.predict(rows).predictions`, under a name too, and the logits that `compute_metrics` gets."""
    match value:
        case ast.Attribute(attr="predictions"):
            return True
        case ast.Subscript(value=ast.Call(func=ast.Attribute(attr="predict")), slice=ast.Constant(value=0)):
            return True
        case ast.Name(id=name):
            return name in {"predictions", "raw_predictions", "logits"}
        case _:
            return False


def _is_keras_evaluation(source: Source, value: ast.expr) -> bool:
    """`model.evaluate(…)` of a network that the file compiles."""
    match value:
        case ast.Call(func=ast.Attribute(value=owner, attr="evaluate")):
            return unparse(owner) in source.cached(_compiled)
        case _:
            return False


def _compiled(source: Source) -> frozenset[str]:
    """The code of the networks of Keras that a file compiles with metrics."""
    return frozenset(
        unparse(call.func.value)
        for call in source.nodes_of(ast.Call)
        if isinstance(call.func, ast.Attribute)
        and call.func.attr == "compile"
        and any(each.arg == "metrics" for each in call.keywords)
    )


def _is_lstm(source: Source, value: ast.expr) -> bool:
    """The call of a name that the file gives an LSTM of torch."""
    return isinstance(value, ast.Call) and unparse(value.func) in source.cached(_lstms)


def _lstms(source: Source) -> frozenset[str]:
    return frozenset(
        unparse(node.targets[0])
        for node in source.nodes_of(ast.Assign)
        if isinstance(node.value, ast.Call)
        and last_name(node.value.func) == "LSTM"
        and unparse(node.value.func).startswith(("nn.", "torch.nn."))
    )
