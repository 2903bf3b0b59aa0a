"""A Keras layer gets a tensor with other axes than it accepts, or a loss targets of another shape than the outputs.

`Conv2D` expects batch, height, width and channels; `LSTM` expects batch, time and features. `input_shape` is the shape
of one row, without the batch. The network raises ValueError when it is built, or in the first batch. Targets of another
shape raise an error too, unless the loss compares each output with each target.

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

The network is made for another number of columns:

    network = keras.Sequential([keras.layers.Dense(3, activation="softmax", input_dim=4)])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    network.fit(x_train.reshape(-1, 8), y_train, verbose=0)  # <- keras-input-rank
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

from lintrain.analysis import keras_misfits, keras_runs, keras_shapes, script_text, tf_datasets
from lintrain.pipeline.values.model import Layer
from lintrain.pipeline.values.python import Value
from lintrain.pipeline.values.training import KerasRun
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict

AXES_OF_ROWS = 2
"""Batch and scores."""

IMAGE_AXES = 4
"""Batch, height, width and channels."""

CHANNELS_IN_FRONT = r"channels_first|dim_ordering|image_data_format|\bdata_format\b"

COMPARES = frozenset(
    {"mean_squared_error", "mean_absolute_error", "mean_squared_logarithmic_error", "mean_absolute_percentage_error"}
    | {"huber", "log_cosh", "binary_crossentropy", "categorical_crossentropy", "sparse_categorical_crossentropy"}
)
"""Losses that compare outputs with targets of the same shape."""

FOLLOWS = frozenset({"Activation", "Softmax", "Dropout"})
"""Layers that may follow the last `Dense`."""


class KerasInputRank(Rule):
    level = Level.ERROR
    keywords = "compile"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[None]]:
        seen = set[Location]()
        for location, made in tf_datasets.unbatched(pipeline.source) if pipeline.keras_runs else ():
            seen.add(location)
            yield self.finding(
                location,
                "the network gets single rows: this data set has no batches",
                related=[Related(made, "made of rows here", "rows")],
                help="divide it with `batch(32)`",
            )
        for run in pipeline.keras_runs:
            for finding in self._of_run(pipeline, run, seen):
                if finding.location not in seen:
                    seen.add(finding.location)
                    yield finding

    def _of_run(self, pipeline: Pipeline, run: KerasRun, seen: set[Location]) -> Iterator[Finding[None]]:
        counted = keras_misfits.whole_shape_given(run)
        featured = keras_misfits.rows_as_features(run) if counted is None else None
        if (first := counted or featured) is not None and first.made is not None:
            yield self.finding(
                first.made,
                "`input_shape` counts the rows: it is the shape of all the data"
                if counted is not None
                else "`input_shape` begins with the number of rows, `.shape[0]`",
                help="pass the shape of one row: `.shape[1:]`",
                subject="layer",
            )
            return
        if (other := keras_misfits.other_size(run)) is not None and (made := other[0].made or other[0].origin):
            yield from self._report_size(pipeline, made, other[1], other[2], seen)
        steps = keras_shapes.steps_of(run)
        refused = next((each for each in steps if each.is_refused), None)
        if refused is not None:
            yield from self._report_refused(steps, refused)
            return
        scores = _unflattened(run, steps)
        if scores is not None:
            yield self.finding(
                scores,
                f"the scores have {steps[-1].result} axes: a `Flatten` before the `Dense` is missing",
                help="add `Flatten()` or a global pooling layer after the convolutions",
                subject="layer",
            )
        if (grown := keras_shapes.outgrown(run)) is not None:
            yield from self._report_window(pipeline, grown, seen)
        if other is None and not script_text.mentions(pipeline, CHANNELS_IN_FRONT):
            misfits = list(self._report_inputs(run, steps)) or list(self._report_targets(run) if scores is None else ())
            yield from misfits

    def _report_inputs(self, run: KerasRun, steps: list[keras_shapes.Step]) -> Iterator[Finding[None]]:
        made = steps[0].layer.made or steps[0].layer.origin if steps else None
        for misfit in keras_misfits.misfitting_inputs(run):
            yield self.finding(
                misfit.argument.location,
                f"the network is made for data of shape {misfit.expected}, but gets {misfit.given}",
                related=[Related(made, "the shape of a row is here", "shape")] if made else [],
                help="reshape the data, or give the first layer the shape of one row",
                subject="layer",
            )

    def _report_targets(self, run: KerasRun) -> Iterator[Finding[None]]:
        loss = keras_runs.loss_of(run)
        if loss is None or loss.name not in COMPARES:
            return
        is_column = loss.name == "categorical_crossentropy" and keras_runs.columns_of(run) is not None
        are_classes = is_column or keras_runs.labels_of(run) is not None
        for misfit in keras_misfits.misfitting_targets(run, is_sparse=loss.name.startswith("sparse")):
            # Other rules compare the form of labels with the loss, and the number of classes with the outputs.
            if are_classes and max(len(misfit.given.sizes), len(misfit.expected.sizes)) <= AXES_OF_ROWS:
                continue
            made = run.output.origin
            yield self.finding(
                misfit.argument.location,
                f"the outputs have shape {misfit.expected}, but the targets have {misfit.given}",
                related=[Related(made, "the last layer is here", "origin")] if made else [],
                help="add a `Flatten`, or give the last layer the size of one target",
                subject="layer",
            )

    def _report_refused(self, steps: list[keras_shapes.Step], refused: keras_shapes.Step) -> Iterator[Finding[None]]:
        if refused.layer.made is None:
            return
        first = steps[0].layer
        shape = first.made or first.origin
        is_other = shape is not None and first != refused.layer
        yield self.finding(
            refused.layer.made,
            f"`{refused.layer.name}` expects {refused.expected} axes, but gets {refused.given}",
            related=[Related(shape, "the shape of a row is here", "shape")] if shape and is_other else [],
            help=_remedy(refused),
            subject="layer",
        )

    def _report_size(
        self, pipeline: Pipeline, made: Location, images: Value, size: str, seen: set[Location]
    ) -> Iterator[Finding[None]]:
        if made not in seen and not script_text.mentions(pipeline, CHANNELS_IN_FRONT):
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
            yield self.finding(
                made,
                f"`{layer.name}` has a window of {width}, and {left} position{' is' if left == 1 else 's are'} left",
                help="give the shape as (height, width, channels), or use smaller windows",
                subject="layer",
            )

    def verify(self, finding: Finding[None], evidence: Evidence) -> Verdict:
        failure = evidence.failed_with(
            "expected ndim=", "expected min_ndim=", "expected axis", "must be a tuple of", "must have the same shape"
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
