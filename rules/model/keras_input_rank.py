"""A Keras layer gets a tensor with another number of axes than it accepts.

`Conv2D` expects batch, height, width and channels; `LSTM` expects batch, time and features. `input_shape` is the shape
of one row, without the batch. The network raises ValueError when it is built, or in the first batch.

## Bad

    network = keras.Sequential()
    network.add(keras.Input((8,)))
    network.add(keras.layers.LSTM(4))  # <- keras-input-rank
    network.add(keras.layers.Dense(3, activation="softmax"))
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    network.fit(x_train, y_train, verbose=0)
    # raises expected ndim=3, found ndim=2

A `Flatten` is missing, so the scores keep the axes of the image:

    network = keras.Sequential()
    network.add(keras.Input((4, 2, 1)))
    network.add(keras.layers.Conv2D(4, (2, 2), activation="relu"))
    network.add(keras.layers.Dense(3, activation="softmax"))  # <- keras-input-rank
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    network.fit(x_train.reshape(-1, 4, 2, 1), y_train, verbose=0)
    # raises ValueError

## Good

    network = keras.Sequential()
    network.add(keras.Input((8, 1)))
    network.add(keras.layers.LSTM(4))
    network.add(keras.layers.Dense(3, activation="softmax"))
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    network.fit(x_train.reshape(-1, 8, 1), y_train, verbose=0)

## When it is fine

The shape of the data is known only when the script runs:

    rows = x_train.reshape(-1, 8, 1)
    network = keras.Sequential([keras.layers.Conv1D(4, 3, input_shape=rows.shape[1:]), keras.layers.Flatten()])
    network.compile(optimizer="adam", loss="mse")

## Fix

None: the shape may be wrong, the layer, or a `Flatten` may be missing.

## References

Keras documentation, "Layer input shapes"; the errors of `InputSpec`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import keras_runs, keras_shapes, script_text
from lintrain.pipeline.values.model import Layer
from lintrain.pipeline.values.python import Value
from lintrain.pipeline.values.training import KerasRun
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict

AXES_OF_ROWS = 2
"""Batch and scores."""

IMAGE_AXES = 4
"""Batch, height, width and channels."""

CHANNELS_IN_FRONT = r"channels_first|dim_ordering|image_data_format|\bdata_format\b"

FOLLOWS = frozenset({"Activation", "Softmax", "Dropout"})
"""Layers that may follow the last `Dense`."""


class KerasInputRank(Rule):
    level = Level.ERROR
    keywords = "compile"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[None]]:
        seen = set[Location]()
        for run in pipeline.keras_runs:
            counted = keras_shapes.whole_shape_given(run)
            if counted is not None and counted.made is not None and counted.made not in seen:
                seen.add(counted.made)
                yield self.finding(
                    counted.made,
                    "`input_shape` counts the rows: it is the shape of all the data",
                    help="pass the shape of one row: `.shape[1:]`",
                    subject="layer",
                )
                continue
            if (other := keras_shapes.other_size(run)) is not None and (made := other[0].made or other[0].origin):
                yield from self._report_size(pipeline, made, other[1], other[2], seen)
            steps = keras_shapes.steps_of(run)
            refused = next((each for each in steps if each.is_refused), None)
            if refused is None and (scores := _unflattened(run, steps)) is not None and scores not in seen:
                seen.add(scores)
                yield self.finding(
                    scores,
                    f"the scores have {steps[-1].result} axes: a `Flatten` before the `Dense` is missing",
                    help="add `Flatten()` or a global pooling layer after the convolutions",
                    subject="layer",
                )
            if refused is None and (grown := keras_shapes.outgrown(run)) is not None:
                yield from self._report_window(pipeline, grown, seen)
            if refused is None or refused.layer.made is None or refused.layer.made in seen:
                continue
            seen.add(refused.layer.made)
            first = steps[0].layer
            shape = first.made or first.origin
            related = (
                [Related(shape, "the shape of a row is here", "shape")] if shape and first != refused.layer else []
            )
            yield self.finding(
                refused.layer.made,
                f"`{refused.layer.name}` expects {refused.expected} axes, but gets {refused.given}",
                related=related,
                help=_remedy(refused),
                subject="layer",
            )

    def _report_size(
        self, pipeline: Pipeline, made: Location, images: Value, size: str, seen: set[Location]
    ) -> Iterator[Finding[None]]:
        if made not in seen and not script_text.mentions(pipeline, CHANNELS_IN_FRONT):
            seen.add(made)
            yield self.finding(
                made,
                f"this layer is made for another size: the images are {size}",
                related=[Related(images.origin, "the images come from here", "images")] if images.origin else [],
                help="give the shape of one image, or resize or reshape the images",
                subject="layer",
            )

    def _report_window(
        self, pipeline: Pipeline, grown: tuple[Layer, int, int], seen: set[Location]
    ) -> Iterator[Finding[None]]:
        layer, width, left = grown
        made = layer.made
        if made is not None and made not in seen and not script_text.mentions(pipeline, CHANNELS_IN_FRONT):
            seen.add(made)
            yield self.finding(
                made,
                f"`{layer.name}` has a window of {width}, and {left} position{' is' if left == 1 else 's are'} left",
                help="give the shape as (height, width, channels), or use smaller windows",
                subject="layer",
            )

    def verify(self, finding: Finding[None], evidence: Evidence) -> Verdict:
        failure = evidence.failed_with(
            "expected ndim=", "expected min_ndim=", "must be a tuple of", "must have the same shape"
        )
        if failure is not None:
            return Verdict.confirmed("Keras refuses the number of axes in the network or its loss", stage=failure.name)
        keras = evidence.keras
        if keras is None or not keras.output_shape:
            return Verdict.inconclusive(evidence.not_reached("forward"))
        return Verdict.refuted(f"the network gives outputs {list(keras.output_shape)}")


def _unflattened(run: KerasRun, steps: list[keras_shapes.Step]) -> Location | None:
    """The last layer of a classifier, if its scores keep the axes of the images or signals."""
    loss = keras_runs.loss_of(run)
    dense = next((each for each in reversed(steps) if each.layer.name == "Dense"), None)
    is_last = dense is not None and all(each.layer.name in FOLLOWS for each in steps[steps.index(dense) + 1 :])
    if dense is None or not is_last or loss is None:
        return None
    axes = steps[-1].result or 0
    is_of_images = axes >= IMAGE_AXES and loss.name.endswith("categorical_crossentropy")
    # Labels of each position do not fit where a layer has made fewer of them.
    is_shorter = axes > AXES_OF_ROWS and loss.name.endswith("_crossentropy") and keras_shapes.shortens(run)
    return dense.layer.made if is_of_images or is_shorter else None


def _remedy(step: keras_shapes.Step) -> str:
    given, expected = step.given or 0, step.expected or 0
    if given > expected:
        return "leave out the batch in the shape, or reshape before the layer"
    if step.layer.name in keras_shapes.RECURRENT:
        return "pass `return_sequences=True` to the layer before, or reshape to (time, features)"
    return "add the axis of the channels, or reshape before it"
