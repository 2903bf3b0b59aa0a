"""A network ends with a softmax over one unit, which is always 1.

A softmax divides by the sum over its units. With a single unit it returns 1 for every row, so the loss never changes
and all gradients are zero. The accuracy is the share of class 1.

## Bad

    labels = (y_train > 0).astype("float32")
    network = keras.Sequential(
        [
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(1, activation="softmax"),  # <- keras-single-unit-softmax
        ]
    )
    network.compile(optimizer="adam", loss="binary_crossentropy")
    network.fit(x_train, labels, verbose=0)

A categorical loss over one unit is constant, too:

    labels = (y_train > 0).astype("float32").reshape(-1, 1)
    network = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1, activation="sigmoid")])
    network.compile(optimizer="adam", loss="categorical_crossentropy")  # <- keras-single-unit-softmax
    network.fit(x_train, labels, verbose=0)

## Good

    labels = (y_train > 0).astype("float32")
    network = keras.Sequential(
        [
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    network.compile(optimizer="adam", loss="binary_crossentropy")
    network.fit(x_train, labels, verbose=0)

## When it is fine

A softmax inside the network may use another axis, as in attention:

    inputs = keras.Input((4, 8))
    weights = keras.layers.Softmax(axis=1)(keras.layers.Dense(1)(inputs))
    outputs = keras.layers.Dense(3, activation="softmax")(keras.layers.Flatten()(inputs * weights))
    network = keras.Model(inputs, outputs)
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")

The number of classes is unknown:

    from my_settings import classes

    network = keras.Sequential([keras.layers.Dense(classes, activation="softmax")])
    network.compile(optimizer="adam", loss="categorical_crossentropy")

## Fix

Safe: the softmax of a single number is always 1. Offered if the loss is a binary cross-entropy.

## References

Keras documentation, "Layer activation functions".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import keras_runs
from lintrain.pipeline.values.model import Layer
from lintrain.pipeline.values.python import Constant
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, dataclass, fixes


@dataclass(frozen=True, slots=True)
class Claim:
    """Whether the activation is a string, and the loss a binary cross-entropy."""

    is_binary: bool


class KerasSingleUnitSoftmax(Rule[Claim]):
    level = Level.ERROR
    keywords = "compile|GradientTape"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for run in pipeline.keras_runs:
            output, loss = run.output, keras_runs.loss_of(run)
            if not isinstance(output, Layer) or keras_runs.output_units(run) != 1:
                continue
            if keras_runs.activation_of(output) == "softmax" and output.made is not None:
                yield self._report_softmax(output, output.made, loss.name if loss else "")
            elif loss is not None and loss.name == "categorical_crossentropy":
                made = [Related(output.origin, "the last layer has 1 unit", "origin")] if output.origin else []
                yield self.finding(
                    run.compile_arguments["loss"].location,
                    "a categorical loss over a single output is always 0",
                    related=made,
                    help="use `binary_crossentropy`, or one output per class",
                    subject="loss",
                )

    def _report_softmax(self, output: Layer, location: Location, loss: str) -> Finding[Claim]:
        is_text = output.name != "Activation" and isinstance(output.arguments.get("activation"), Constant)
        return self.finding(
            location,
            "a softmax over a single unit is always 1",
            help='use `activation="sigmoid"`, or one unit per class',
            subject="activation",
            claim=Claim(is_text and loss == "binary_crossentropy"),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        keras = evidence.keras
        if keras is None or keras.units != 1:
            return
        if keras.activation == "softmax":
            message, subject = "a softmax over a single unit is always 1", "activation"
        elif keras.loss == "categorical_crossentropy":
            message, subject = "a categorical loss over a single output is always 0", "loss"
        else:
            return
        remedy = "use a sigmoid and `binary_crossentropy`, or one output per class"
        yield self.finding(evidence.location, message, help=remedy, subject=subject)

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        keras = evidence.keras
        if keras is None or keras.units is None:
            return Verdict.inconclusive(evidence.not_reached("forward"))
        if keras.units != 1:
            return Verdict.refuted(f"the last layer has {keras.units} units")
        if keras.output_minimum == keras.output_maximum == 1.0:
            return Verdict.confirmed(f"all {keras.output_shape[0]} outputs are 1", stage="forward")
        if keras.loss == "categorical_crossentropy":
            losses = evidence.forward.losses if evidence.forward else ()
            return Verdict.confirmed(f"a categorical loss over {keras.units} unit is {max(losses, default=0.0):.3g}")
        return Verdict.refuted(f"{keras.span}, from {keras.units} unit")

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None or not finding.claim.is_binary:
            return None
        edit = fixes.RenameArgument(finding.location, "activation", "activation", '"sigmoid"')
        return fixes.Fix.of('write `activation="sigmoid"`', edit, safe=True)
