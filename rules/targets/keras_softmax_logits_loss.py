"""A cross-entropy that expects logits gets probabilities.

`from_logits=True` lets the loss apply the softmax (or sigmoid) by itself. After a layer that has applied it before, the
loss cannot fall below a floor (0.55 with three classes), its gradients are small, and its value says nothing.
On TensorFlow Keras notices its own activation and corrects this with a warning; on torch and JAX nothing is said.

## Bad

    network = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(3, activation="softmax")])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    network.compile(optimizer="adam", loss=loss)  # <- keras-softmax-logits-loss
    network.fit(x_train, y_train, verbose=0)

## Good

    network = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(3, activation="softmax")])
    loss = keras.losses.SparseCategoricalCrossentropy()
    network.compile(optimizer="adam", loss=loss)
    network.fit(x_train, y_train, verbose=0)

A last layer without activation gives logits:

    network = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(3)])
    network.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.fit(x_train, y_train, verbose=0)

## When it is fine

The probabilities are those of another model, around the one that is trained:

    network = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(3)])
    network.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.fit(x_train, y_train, verbose=0)
    probabilities = keras.Sequential([network, keras.layers.Softmax()])
    probabilities.predict(x_val, verbose=0)

What the last layer does is not known:

    from my_layers import Head

    network = keras.Sequential([keras.layers.Dense(32, activation="softmax"), Head(3)])
    network.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))

## Fix

Safe: the loss takes a second softmax as it stands.

## References

Keras documentation, "Probabilistic losses".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import keras_runs
from lintrain.pipeline.values.model import Layer
from lintrain.pipeline.values.training import KerasRun
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, fixes, lazy_pattern

ACTIVATIONS = {
    "categorical_crossentropy": "softmax",
    "sparse_categorical_crossentropy": "softmax",
    "binary_crossentropy": "sigmoid",
}
"""What each loss applies by itself with `from_logits=True`."""

OTHER_BACKENDS = lazy_pattern(r"KERAS_BACKEND['\"]\]?\s*[,=:]\s*['\"](torch|jax)")


class KerasSoftmaxLogitsLoss(Rule):
    level = Level.WARNING
    keywords = "compile"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for run in pipeline.keras_runs:
            loss, output = keras_runs.loss_of(run), run.output
            if loss is None or loss.from_logits is not True or not isinstance(output, Layer):
                continue
            activation = ACTIVATIONS.get(loss.name)
            if activation is not None and keras_runs.activation_of(output) == activation:
                yield self._report(pipeline, run, output, activation, loss.made)

    def _report(
        self, pipeline: Pipeline, run: KerasRun, output: Layer, activation: str, made: Location | None
    ) -> Finding:
        silent = OTHER_BACKENDS.search(pipeline.source.text) is not None
        return self.finding(
            run.compile_arguments["loss"].location,
            f"this loss takes the {activation} of the last layer for logits",
            related=[Related(output.origin, f"the last layer: {activation}", "origin")] if output.origin else [],
            help="leave out `from_logits=True`",
            subject="loss",
            level=Level.ERROR if silent else Level.WARNING,
            facts=made.as_facts() if made else {},
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        keras = evidence.keras
        if keras is None or not keras.loss or keras.are_probabilities is None or keras.sums is None:
            return Verdict.inconclusive(evidence.not_reached("forward"))
        if not keras.from_logits:
            return Verdict.refuted(f"`{keras.loss}` takes {keras.span} for probabilities")
        if keras.corrected is not None:
            own, other = keras.corrected
            return Verdict.refuted(
                f"Keras goes back to the logits: a loss of {own:.3g}, which would be {other:.3g} without that"
            )
        if keras.loss == "binary_crossentropy":
            are_probabilities = keras.are_within_one
            told = keras.span
        else:
            are_probabilities = keras.are_probabilities
            told = f"{keras.span}, in rows that add up to {keras.sums[0]:.3f} to {keras.sums[1]:.3f}"
        if are_probabilities:
            return Verdict.confirmed(f"`{keras.loss}` takes {told} for logits", stage="forward")
        return Verdict.refuted(f"`{keras.loss}` gets {told}")

    def fix(self, finding: Finding) -> fixes.Fix | None:
        call = finding.location_in_facts
        if call is None:
            return None
        return fixes.Fix.of("leave out `from_logits=True`", fixes.RemoveArgument(call, "from_logits"), safe=True)
