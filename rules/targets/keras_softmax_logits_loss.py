"""A cross-entropy that expects logits gets probabilities.

With `from_logits=True` the loss applies the softmax (or sigmoid) itself. If the last layer has already applied it, the
loss cannot fall below a lower bound (0.55 with three classes) and the gradients are small. With the TensorFlow backend
Keras detects its own activation and corrects this with a warning; with the torch and JAX backends it does not.

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

A last layer without activation returns logits:

    network = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(3)])
    network.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.fit(x_train, y_train, verbose=0)

## When it is fine

Another model wraps the trained one and returns probabilities:

    network = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(3)])
    network.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.fit(x_train, y_train, verbose=0)
    probabilities = keras.Sequential([network, keras.layers.Softmax()])
    probabilities.predict(x_val, verbose=0)

The last layer is unknown:

    from my_layers import Head

    network = keras.Sequential([keras.layers.Dense(32, activation="softmax"), Head(3)])
    network.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))

## Fix

Safe: until then the softmax is applied twice.

## References

Keras documentation, "Probabilistic losses".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import keras_runs
from lintrain.pipeline.values.model import Layer
from lintrain.pipeline.values.python import Library
from lintrain.pipeline.values.training import KerasRun
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Rule,
    Verdict,
    dataclass,
    fixes,
    lazy_pattern,
)

ACTIVATIONS = {
    "categorical_crossentropy": "softmax",
    "sparse_categorical_crossentropy": "softmax",
    "binary_crossentropy": "sigmoid",
}
"""The activation that each loss applies with `from_logits=True`."""

OTHER_BACKENDS = lazy_pattern(r"KERAS_BACKEND['\"]\]?\s*[,=:]\s*['\"](torch|jax)")


@dataclass(frozen=True, slots=True)
class Claim:
    """The call with `from_logits=True`; None if it is not in the script."""

    loss: Location | None


class KerasSoftmaxLogitsLoss(Rule[Claim]):
    level = Level.WARNING
    keywords = "compile|GradientTape"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for run in pipeline.keras_runs:
            loss, output = keras_runs.loss_of(run), run.output
            if loss is None or loss.from_logits is not True or not isinstance(output, Layer):
                continue
            activation = ACTIVATIONS.get(loss.name)
            if activation is not None and keras_runs.activation_of(output) == activation:
                yield self._report(pipeline, run, output, activation, loss.made)

    def _report(
        self, pipeline: Pipeline, run: KerasRun, output: Layer, activation: str, made: Location | None
    ) -> Finding[Claim]:
        # Keras finds the logits behind an activation by itself only for its own losses, and only with TensorFlow.
        is_function = isinstance(run.value("loss"), Library)
        silent = is_function or pipeline.source.contains(OTHER_BACKENDS)
        return self.finding(
            run.compile_arguments["loss"].location,
            f"this loss expects logits, but the last layer applies {activation}",
            related=[Related(output.origin, f"the last layer applies {activation}", "origin")] if output.origin else [],
            help="use the loss of Keras for probabilities" if is_function else "remove `from_logits=True`",
            subject="loss",
            level=Level.ERROR if silent else Level.WARNING,
            claim=Claim(made),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        keras = evidence.keras
        if keras is not None and keras.from_logits and keras.activation in {"softmax", "sigmoid"}:
            yield self.finding(
                evidence.location,
                f"`{keras.loss}` expects logits, but the last layer applies {keras.activation}",
                help="drop `from_logits=True`, or the activation of the last layer",
                subject="loss",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        keras = evidence.keras
        if keras is None or not keras.loss or keras.are_probabilities is None or keras.sums is None:
            return Verdict.inconclusive(evidence.not_reached("forward"))
        if not keras.from_logits:
            return Verdict.refuted(f"`{keras.loss}` expects probabilities and gets {keras.span}")
        if keras.corrected is not None:
            own, other = keras.corrected
            return Verdict.refuted(
                f"Keras uses the logits instead: the loss is {own:.3g}, and would be {other:.3g} otherwise"
            )
        if keras.loss == "binary_crossentropy":
            are_probabilities = keras.are_within_one
            outputs = keras.span
        else:
            are_probabilities = keras.are_probabilities
            outputs = f"{keras.span}, with row sums from {keras.sums[0]:.3f} to {keras.sums[1]:.3f}"
        if are_probabilities:
            return Verdict.confirmed(f"`{keras.loss}` expects logits and gets {outputs}", stage="forward")
        return Verdict.refuted(f"`{keras.loss}` gets {outputs}")

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        call = finding.claim.loss if finding.claim else None
        if call is None:
            return None
        return fixes.Fix.of("remove `from_logits=True`", fixes.RemoveArgument(call, "from_logits"), safe=True)
