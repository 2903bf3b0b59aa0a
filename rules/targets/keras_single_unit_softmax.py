"""A network ends with a softmax over one value, which is always 1.

A softmax divides by the sum over its classes. With one class it gives 1 for every row, whatever the network computes:
the loss is the same in each epoch and no gradient flows. The accuracy is the share of class 1.

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

A categorical loss over one class is as constant:

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

A softmax inside the network may be over another axis, as in attention:

    inputs = keras.Input((4, 8))
    weights = keras.layers.Softmax(axis=1)(keras.layers.Dense(1)(inputs))
    outputs = keras.layers.Dense(3, activation="softmax")(keras.layers.Flatten()(inputs * weights))
    network = keras.Model(inputs, outputs)
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")

The number of classes is not known:

    from my_settings import classes

    network = keras.Sequential([keras.layers.Dense(classes, activation="softmax")])
    network.compile(optimizer="adam", loss="categorical_crossentropy")

## Fix

Safe: the softmax of one number is 1, whatever the number. Offered beside a binary cross-entropy.

## References

Keras documentation, "Layer activation functions".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import keras_runs
from lintrain.pipeline.values.model import Layer
from lintrain.pipeline.values.python import Constant
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, fixes


class KerasSingleUnitSoftmax(Rule):
    level = Level.ERROR
    keywords = "compile"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for run in pipeline.keras_runs:
            output, loss = run.output, keras_runs.loss_of(run)
            if not isinstance(output, Layer) or keras_runs.units_of(output) != 1:
                continue
            if keras_runs.activation_of(output) == "softmax" and output.made is not None:
                yield self._constant(output, output.made, loss.name if loss else "")
            elif loss is not None and loss.name == "categorical_crossentropy":
                made = [Related(output.origin, "the last layer: 1 unit", "origin")] if output.origin else []
                yield self.finding(
                    run.compile_arguments["loss"].location,
                    "a categorical loss over the one output of this network is always 0",
                    related=made,
                    help="take `binary_crossentropy`, or one output for each class",
                    subject="loss",
                )

    def _constant(self, output: Layer, location: Location, loss: str) -> Finding:
        is_text = isinstance(output.arguments.get("activation"), Constant)
        return self.finding(
            location,
            "a softmax over one unit is 1 for every row",
            help='one unit takes `activation="sigmoid"`; a softmax takes one for each class',
            subject="activation",
            facts={"is_binary": is_text and loss == "binary_crossentropy"},
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        keras = evidence.keras
        if keras is None or keras.units is None:
            return Verdict.inconclusive(evidence.not_reached("forward"))
        if keras.units != 1:
            return Verdict.refuted(f"the outputs have {keras.units} units")
        if keras.output_minimum == keras.output_maximum == 1.0:
            return Verdict.confirmed(f"all {keras.output_shape[0]} outputs are 1", stage="forward")
        if keras.loss == "categorical_crossentropy":
            losses = evidence.forward.losses if evidence.forward else ()
            return Verdict.confirmed(f"a categorical loss over {keras.units} unit is {max(losses, default=0.0):.3g}")
        return Verdict.refuted(f"{keras.span} of {keras.units} unit")

    def fix(self, finding: Finding) -> fixes.Fix | None:
        if not finding.facts.get("is_binary"):
            return None
        edit = fixes.RenameArgument(finding.location, "activation", "activation", '"sigmoid"')
        return fixes.Fix.of('write `activation="sigmoid"`', edit, safe=True)
