"""Mistakes in functions that score predictions."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.accuracy.code import Code, Edit
from benchmarks.accuracy.finding import function_around, names_in
from benchmarks.accuracy.mutants import injects

SCORES = ("accuracy.compute", "metric.compute", "accuracy_score", "f1_score", "precision_recall_fscore_support")


@injects("logits-in-metric", shows="error")
def score_logits(code: Code) -> Iterator[list[Edit]]:
    """Logits where classes are wanted."""
    for argmax in code.calls("np.argmax", "numpy.argmax"):
        function = function_around(code, argmax)
        scored = [call for call in code.calls(*SCORES) if function and function in code.ancestors(call)]
        if scored and "token" not in code.path:
            marks = [code.here(code.statement(call)) for call in scored] + [code.here(call) for call in scored]
            yield [code.replace(argmax, code.code(argmax.args[0])), *unique(marks)]


def unique(edits: list[Edit]) -> list[Edit]:
    """Each edit once."""
    return list(dict.fromkeys(edits))


@injects("binary-average", shows="error")
def forget_to_average(code: Code) -> Iterator[list[Edit]]:
    """F1 of several classes with the average of two."""
    for score in code.calls("f1_score", "precision_score", "recall_score"):
        average = code.argument(score, "average")
        if average and "macro" in code.code(average):
            yield [code.here(code.statement(score)), code.here(score), code.drop_argument(score, "average")]


@injects("ignored-index-in-metric", shows="error printed")
def decode_ignored_labels(code: Code) -> Iterator[list[Edit]]:
    """Decode labels with -100 in them."""
    for clean in code.nodes(ast.Assign):
        if "np.where(labels != -100" in code.code(clean):
            decodes = [call for call in code.calls("batch_decode") if "labels" in code.code(call)]
            yield [code.delete(clean), *(code.here(code.statement(call)) for call in decodes)]


@injects("ignored-index-in-metric", shows="printed")
def score_ignored_labels(code: Code) -> Iterator[list[Edit]]:
    """Score every position, also those that count for nothing."""
    for row in code.nodes(ast.Return):
        if "[scored]" in code.code(row) and row.value is not None:
            yield [code.here(row), code.replace(row.value, code.code(row.value).replace("[scored]", ""))]


@injects("non-dict-metrics", shows="error")
def return_a_number(code: Code) -> Iterator[list[Edit]]:
    """A score without a name."""
    for result in code.nodes(ast.Return):
        function = function_around(code, result)
        is_metric = function and f"compute_metrics={function.name}" in code.text.replace(" ", "")
        if is_metric and isinstance(result.value, ast.Dict) and len(result.value.values) == 1:
            yield [code.here(result), code.replace(result.value, code.code(result.value.values[0]))]


@injects("argmax-on-scores", shows="printed error")
def take_the_highest_of_one(code: Code) -> Iterator[list[Edit]]:
    """The class of a head that gives one number."""
    for squeeze in code.calls("predictions.squeeze"):
        if names_in(code, "regression"):
            yield [code.here(code.statement(squeeze)), code.replace(squeeze, "np.argmax(predictions, axis=-1)")]
