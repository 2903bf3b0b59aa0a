"""Images reach a network of Keras as numbers from 0 to 255.

The initial weights and the usual learning rates are made for inputs around one. With values up to 255 the first outputs
are hundreds of times too large: training is slow, unstable or stops at a poor loss. Images that are scaled for training
and not for the evaluation or a prediction are worse: the network gets inputs that it has never seen.

## Bad

    (x_train, y_train), (x_test, y_test) = keras.datasets.mnist.load_data()
    network = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(10, activation="softmax")])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    network.fit(x_train, y_train, epochs=2)  # <- unscaled-pixels

The evaluation alone:

    (x_train, y_train), (x_test, y_test) = keras.datasets.mnist.load_data()
    x_train = x_train / 255
    network = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(10, activation="softmax")])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    network.fit(x_train, y_train, epochs=2)
    network.evaluate(x_test, y_test)  # <- unscaled-pixels

## Good

    (x_train, y_train), (x_test, y_test) = keras.datasets.mnist.load_data()
    x_train, x_test = x_train / 255, x_test / 255
    network = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(10, activation="softmax")])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    network.fit(x_train, y_train, epochs=2)
    network.evaluate(x_test, y_test)

## When it is fine

The network scales them itself:

    (x_train, y_train), (x_test, y_test) = keras.datasets.mnist.load_data()
    network = keras.Sequential(
        [keras.layers.Rescaling(1 / 255), keras.layers.Flatten(), keras.layers.Dense(10, activation="softmax")]
    )
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    network.fit(x_train, y_train, epochs=2)

## Fix

None: `x / 255`, a `Rescaling` layer and standardization are all right, and the evaluation needs the same.

## References

Keras documentation, "Simple MNIST convnet" and `keras.layers.Rescaling`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import keras_runs
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.python import Sequence, Value
from lintrain.pipeline.values.training import KerasRun
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, one_per_location


class UnscaledPixels(Rule):
    level = Level.WARNING
    keywords = "load_data|image_dataset_from_directory|ImageDataGenerator & fit"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(
            finding
            for run in pipeline.keras_runs
            if keras_runs.takes_inputs_as_they_are(run)
            for finding in self._judge(run)
        )

    def _judge(self, run: KerasRun) -> Iterator[Finding]:
        trained = [arguments["x"] for _, arguments in run.fits if "x" in arguments]
        scaled = [keras_runs.are_scaled(argument.value) for argument in trained]
        raw = [argument for argument, is_scaled in zip(trained, scaled, strict=True) if is_scaled is False]
        if raw and len(raw) == len(scaled):
            yield self._report(raw[0], "pixels from 0 to 255 reach this network unscaled")
        beside = [arguments["validation_data"] for _, arguments in run.fits if "validation_data" in arguments]
        held_out = [
            *((each, _inputs_in(each.value)) for each in beside),
            *((each, each.value) for each in (*run.evaluations, *run.predictions)),
        ]
        evaluated = [argument for argument, inputs in held_out if keras_runs.are_scaled(inputs) is False]
        if scaled and all(scaled) and evaluated:
            yield self._report(evaluated[0], "these pixels are not scaled, but those of the training are")

    def _report(self, argument: Argument, message: str) -> Finding:
        made = argument.value.origin
        return self.finding(
            argument.location,
            message,
            related=[Related(made, "loaded here", "origin")] if made else [],
            help="divide them by 255, or start the network with `Rescaling(1 / 255)`",
            subject="x",
        )


def _inputs_in(pair: Value) -> Value:
    """The inputs of `validation_data=(x, y)`."""
    return pair.items[0] if isinstance(pair, Sequence) and pair.items else pair
