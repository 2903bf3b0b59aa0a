"""Labels sit among the inputs while `compile` names a loss that expects them as `y`.

Keras takes the targets of its loss from the second argument of `fit`, or from the second part of what a data set gives.
Labels inside the dictionary of inputs are inputs to it: the run ends with an error about types or about missing
gradients, or a loss is computed twice in different ways.

## Bad

    inputs = keras.Input((8,), name="x")
    outputs = keras.layers.Dense(3, activation="softmax")(inputs)
    network = keras.Model(inputs, outputs)
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    network.fit({"x": x_train, "labels": y_train})  # <- keras-labels-in-inputs
    # raises ValueError

## Good

    inputs = keras.Input((8,), name="x")
    outputs = keras.layers.Dense(3, activation="softmax")(inputs)
    network = keras.Model(inputs, outputs)
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    network.fit({"x": x_train}, y=y_train)

## When it is fine

A data set may give pairs of inputs and targets; a dictionary of inputs alone cannot be told from them by its name:

    def train(network, rows):
        network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
        network.fit(rows)

## Fix

Asks first: a model that takes the labels among its inputs would miss them. Offered for a dictionary that is written
out.

## References

transformers#8456; Keras documentation, `Model.fit`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.data import Encoding, Slices
from lintrain.pipeline.values.python import Mapping, Unknown, Value, is_missing
from lintrain.pipeline.values.training import KerasRun
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, fixes
from lintrain.source import parsing

LABELS = ("labels", "label")


class KerasLabelsInInputs(Rule):
    level = Level.ERROR
    keywords = "compile"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for run in pipeline.keras_runs:
            loss = run.value("loss")
            if is_missing(loss) or isinstance(loss, Unknown):
                continue
            for call, arguments in run.fits:
                yield from self._judge(pipeline, run, call, arguments)

    def _judge(
        self, pipeline: Pipeline, run: KerasRun, call: Location, arguments: dict[str, Argument]
    ) -> Iterator[Finding]:
        given = arguments.get("x")
        has_targets = "y" in arguments and not is_missing(arguments["y"].value)
        if given is None or has_targets or "**" in arguments:
            return
        label = _label_among(given.value)
        if label is None or run.compiled is None:
            return
        related = [Related(run.compile_arguments["loss"].location, "this loss expects `y`", "loss")]
        parts = _parted(pipeline.code(given.location), label)
        if parts:
            related.append(Related(call, "trained here", "fit"))
        origin = given.value.origin
        if origin is not None and origin != given.location:
            related.insert(0, Related(origin, f"`{label}` is one of the inputs", "origin"))
        yield self.finding(
            given.location,
            f"`{label}` is among the inputs, and the loss of `compile` gets no targets",
            related=related,
            help="pass the labels as `y`, or name them in `label_cols`",
            subject="x",
            facts={"inputs": parts[0], "labels": parts[1]} if parts else None,
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        keras = evidence.keras
        if keras is None:
            return Verdict.inconclusive(evidence.not_reached("batch"))
        names = ", ".join(f"`{name}`" for name in keras.inputs)
        if keras.has_targets:
            return Verdict.refuted(f"the batch has targets beside its inputs {names}")
        stage = evidence.failed_stage
        if stage is not None and set(LABELS) & set(keras.inputs):
            return Verdict.confirmed(f"no targets beside the {len(keras.inputs)} inputs {names}", stage=stage.name)
        return Verdict.inconclusive(f"no stage fails on the inputs {names}")

    def fix(self, finding: Finding) -> fixes.Fix | None:
        calls, inputs, labels = finding.with_role("fit"), finding.facts.get("inputs"), finding.facts.get("labels")
        if not calls or not isinstance(inputs, str) or not isinstance(labels, str):
            return None
        edits = fixes.Replace(finding.location, inputs), fixes.AddArgument(calls[0].location, "y", labels)
        return fixes.Fix.of(f"pass `y={labels}`", *edits, safe=False)


def _label_among(inputs: Value) -> str | None:
    """The label's name in a dictionary of inputs, or in the rows of a data set that gives nothing beside it."""
    match inputs:
        case Slices():
            return _label_among(inputs.structure)
        case Mapping():
            return next((name for name in LABELS if name in inputs.entries), None)
        case Encoding():
            return next((name for name in LABELS if name in inputs.items), None)
        case _:
            return None


def _parted(code: str, label: str) -> tuple[str, str] | None:
    """The inputs of a written dictionary without its labels, and the labels; None where there are no others."""
    try:
        given = parsing.expression_of(code)
    except SyntaxError:
        return None
    if not isinstance(given, ast.Dict) or "\n" in code:
        return None
    pairs = [
        (ast.get_source_segment(code, key) if key else None, ast.get_source_segment(code, value))
        for key, value in zip(given.keys, given.values, strict=True)
    ]
    labels = [value for key, value in pairs if key is not None and key.strip("'\"") == label]
    kept = [f"{key}: {value}" for key, value in pairs if key is not None and key.strip("'\"") != label]
    if len(labels) != 1 or labels[0] is None or len(kept) != len(pairs) - 1 or not kept:
        return None
    return f"{{{', '.join(kept)}}}", labels[0]
