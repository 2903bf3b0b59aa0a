"""Labels are among the inputs, but the loss of `compile` expects them as `y`.

Keras takes the targets of its loss from the argument `y` of `fit`, or from the second element of a dataset. Labels in
the dictionary of inputs are only inputs: `fit` raises an error about types or missing gradients, or the loss is
computed twice in different ways.

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

A dataset may contain pairs of inputs and targets:

    def train(network, rows):
        network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
        network.fit(rows)

## Fix

Asks first: the model may need the labels as an input. Offered for a dictionary literal.

## References

transformers#8456; Keras documentation, `Model.fit`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import expressions
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.data import Encoding, Slices
from lintrain.pipeline.values.python import Mapping, Unknown, Value, is_missing
from lintrain.pipeline.values.training import KerasRun
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, dataclass, fixes

LABELS = ("labels", "label")


@dataclass(frozen=True, slots=True)
class Claim:
    """The code of the inputs without the labels, and the code of the labels."""

    inputs: str
    labels: str


class KerasLabelsInInputs(Rule[Claim]):
    level = Level.ERROR
    keywords = "compile"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for run in pipeline.keras_runs:
            loss = run.value("loss")
            if is_missing(loss) or isinstance(loss, Unknown):
                continue
            for call, arguments in run.fits:
                yield from self._check_fit(pipeline, run, call, arguments)

    def _check_fit(
        self, pipeline: Pipeline, run: KerasRun, call: Location, arguments: dict[str, Argument]
    ) -> Iterator[Finding[Claim]]:
        given = arguments.get("x")
        has_targets = "y" in arguments and not is_missing(arguments["y"].value)
        if given is None or has_targets or "**" in arguments:
            return
        label = _label_among(given.value)
        if label is None or run.compiled is None:
            return
        related = [Related(run.compile_arguments["loss"].location, "this loss expects `y`", "loss")]
        parts = _split_off(pipeline.code(given.location), label)
        if parts:
            related.append(Related(call, "`fit` is called here", "fit"))
        origin = given.value.origin
        if origin is not None and origin != given.location:
            related.insert(0, Related(origin, f"`{label}` is one of the inputs", "origin"))
        yield self.finding(
            given.location,
            f"`{label}` is an input, so the loss of `compile` gets no targets",
            related=related,
            help="pass the labels as `y`, or name them in `label_cols`",
            subject="x",
            claim=parts,
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        keras = evidence.keras
        labels = sorted(set(LABELS) & set(keras.inputs)) if keras is not None else []
        if keras is not None and labels and not keras.has_targets and keras.loss:
            yield self.finding(
                evidence.call or evidence.location,
                f"`{labels[0]}` is an input, so the loss of `compile` gets no targets",
                help="pass the labels as `y`, or name them in `label_cols`",
                subject="x",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        keras = evidence.keras
        if keras is None:
            return Verdict.inconclusive(evidence.not_reached("batch"))
        names = ", ".join(f"`{name}`" for name in keras.inputs)
        if keras.has_targets:
            return Verdict.refuted(f"the batch has targets and the inputs {names}")
        stage = evidence.failed_stage
        if stage is not None and set(LABELS) & set(keras.inputs):
            return Verdict.confirmed(
                f"the batch has the {len(keras.inputs)} inputs {names} and no targets", stage=stage.name
            )
        return Verdict.inconclusive(f"no stage failed with the inputs {names}")

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim, calls = finding.claim, finding.with_role("fit")
        if claim is None or not calls:
            return None
        edits = fixes.Replace(finding.location, claim.inputs), fixes.AddArgument(calls[0].location, "y", claim.labels)
        return fixes.Fix.of(f"pass `y={claim.labels}`", *edits, safe=False)


def _label_among(inputs: Value) -> str | None:
    """The label's name in a dictionary of inputs, or in a dataset whose elements are inputs only."""
    match inputs:
        case Slices():
            return _label_among(inputs.structure)
        case Mapping():
            return next((name for name in LABELS if name in inputs.entries), None)
        case Encoding():
            return next((name for name in LABELS if name in inputs.items), None)
        case _:
            return None


def _split_off(code: str, label: str) -> Claim | None:
    """A dictionary literal of inputs split into inputs and labels; None if no other input is left."""
    try:
        given = expressions.parsed(code)
    except SyntaxError:
        return None
    if given.kind is not expressions.Kind.DICTIONARY or "\n" in code:
        return None
    pairs = [(key.written_code if key else None, value.written_code) for key, value in given.entries]
    labels = [value for key, value in pairs if key is not None and key.strip("'\"") == label]
    kept = [f"{key}: {value}" for key, value in pairs if key is not None and key.strip("'\"") != label]
    if len(labels) != 1 or len(kept) != len(pairs) - 1 or not kept:
        return None
    return Claim(f"{{{', '.join(kept)}}}", labels[0])
