"""A Keras loss or layer computes with `argmax`, `round` or a comparison, which have no gradient.

What such an operation gives does not change, or jumps, when the weights change a little. If all of a loss goes through
one, no weight gets a gradient: `fit` raises an error about missing gradients, or trains nothing. A layer of this kind
stops the gradients of all layers before it.

## Bad

    def share_of_hits(wanted, given):
        return keras.ops.mean(keras.ops.equal(wanted, keras.ops.round(given)))  # <- keras-cut-gradient

    network = keras.Sequential([keras.layers.Dense(1, activation="sigmoid")])
    network.compile(optimizer="adam", loss=share_of_hits)
    network.fit(x_train, y_train, verbose=0)

A layer in front of the loss:

    network = keras.Sequential()
    network.add(keras.layers.Dense(3))
    network.add(keras.layers.Lambda(lambda x: keras.ops.round(x)))  # <- keras-cut-gradient
    network.compile(optimizer="adam", loss="mse")
    network.fit(x_train, keras.utils.to_categorical(y_train, 3), verbose=0)

## Good

    network = keras.Sequential([keras.layers.Dense(1, activation="sigmoid")])
    network.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
    network.fit(x_train, (y_train == 0).astype("float32"), verbose=0)

## When it is fine

A metric needs no gradient, and a loss may count with the targets alone:

    def weighted(wanted, given):
        weights = keras.ops.where(keras.ops.equal(wanted, 0), 1.0, 2.0)
        return keras.ops.mean(weights * keras.ops.square(wanted - given))

    def hits(wanted, given):
        return keras.ops.mean(keras.ops.equal(wanted, keras.ops.round(given)))

    network = keras.Sequential([keras.layers.Dense(1, activation="sigmoid")])
    network.compile(optimizer="adam", loss=weighted, metrics=[hits])
    network.fit(x_train, y_train, verbose=0)

## Fix

None: a loss that has a gradient is for the author to choose.

## References

Keras documentation, "Losses", "Creating custom losses"; TensorFlow guide, "Automatic differentiation", "Getting a
gradient of None".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import keras_gradients
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, one_per_location

RAISED = ("No gradients", "None values", "has `None` for gradient", "does not require grad")
"""Parts of the messages with which the backends of Keras refuse a loss without a gradient."""


class KerasCutGradient(Rule):
    level = Level.ERROR
    keywords = "compile|GradientTape"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(self._report(cut) for cut in keras_gradients.cut_gradients(pipeline))
        for location, inputs in keras_gradients.symbolic_gradients(pipeline):
            yield self.finding(
                location,
                f"the gradient by `{inputs}` is None: they take no part in this pass",
                help="watch the tensor that the model is called on, and pass that",
            )

    def _report(self, cut: keras_gradients.Cut) -> Finding:
        what = "the loss" if cut.is_loss else "what is before this layer"
        shown = f"`{cut.name}`" if len(cut.name) <= 24 else "a comparison"
        return self.finding(
            cut.location,
            f"{what} gets no gradient: {shown} has none",
            related=[Related(cut.used, "it is used here", "used")] if cut.used != cut.location else [],
            help="compute with the scores themselves; round or choose only in metrics and predictions",
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        if (stage := evidence.failed_with(*RAISED)) is not None:
            return Verdict.confirmed("the optimizer got no gradient", stage=stage.name)
        step = evidence.step
        if step is None:
            return Verdict.inconclusive(evidence.not_reached("step"))
        text = f"{step.changed_tensors} of {step.trainable_tensors} tensors changed"
        return Verdict.refuted(text) if step.changed_tensors else Verdict.confirmed(text, stage="step")
