"""The last layer of a Keras network has not as many outputs as the labels have classes.

With one-hot rows, the first batch raises an error about shapes. With class indices, labels that no output stands for
raise an error, or give a loss of NaN, depending on the backend.

## Bad

    network = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(2, activation="softmax")])
    network.compile(optimizer="adam", loss="categorical_crossentropy")  # <- keras-class-count
    network.fit(x_train, keras.utils.to_categorical(y_train, 3), verbose=0)
    # raises must have the same shape

Class indices:

    labels = keras.utils.to_categorical(y_train, 3).argmax(axis=1)
    network = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(2, activation="softmax")])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")  # <- keras-class-count
    network.fit(x_train, labels, verbose=0)
    # raises out of bounds

## Good

    network = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss="categorical_crossentropy")
    network.fit(x_train, keras.utils.to_categorical(y_train, 3), verbose=0)

Class indices:

    labels = keras.utils.to_categorical(y_train, 3).argmax(axis=1)
    network = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    network.fit(x_train, labels, verbose=0)

## When it is fine

With class indices, outputs may be left over:

    labels = keras.utils.to_categorical(y_train, 3).argmax(axis=1)
    network = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(4, activation="softmax")])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    network.fit(x_train, labels, verbose=0)

## Fix

None: a layer for another task may be the mistake, or the labels.

## References

Keras documentation, "Probabilistic losses".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import keras_runs
from lintrain.pipeline.values.training import KerasLabels, KerasRun, LabelledBatches
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, dataclass

SPARSE = "sparse_categorical_crossentropy"
ONE_HOT_LOSSES = frozenset({"categorical_crossentropy", "binary_crossentropy"})


@dataclass(frozen=True, slots=True)
class Claim:
    """Whether the labels are one-hot rows."""

    is_one_hot: bool


class KerasClassCount(Rule[Claim]):
    level = Level.ERROR
    keywords = "compile"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for run in pipeline.keras_runs:
            loss, labels, units = keras_runs.loss_of(run), keras_runs.labels_of(run), keras_runs.output_units(run)
            if loss is not None and labels is not None and units is not None and _differ(loss.name, labels, units):
                yield self._report(run, labels, units)

    def _report(self, run: KerasRun, labels: KerasLabels | LabelledBatches, units: int) -> Finding[Claim]:
        outputs = "1 output" if units == 1 else f"{units} outputs"
        numbers = "one-hot rows" if labels.is_one_hot else "one number each"
        given = f"{labels.classes} classes" if labels.classes and labels.classes != units else numbers
        related = [Related(labels.origin, f"the labels are {given}", "labels")] if labels.origin else []
        if run.output.origin:
            related.append(Related(run.output.origin, f"the last layer has {outputs}", "origin"))
        return self.finding(
            run.compile_arguments["loss"].location,
            f"the last layer has {outputs}, but the labels are {given}",
            related=related,
            help=_remedy(labels, units),
            subject="loss",
            claim=Claim(labels.is_one_hot),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        keras = evidence.keras
        if keras is None or keras.units is None or not keras.target_shape:
            return
        are_rows = len(keras.target_shape) == len(keras.output_shape) and keras.target_shape[-1] > 1
        is_short = keras.loss in ONE_HOT_LOSSES and are_rows and keras.target_shape[-1] != keras.units
        is_over = keras.loss == SPARSE and evidence.failed_with("out of bounds", "Received a label value") is not None
        if is_short or is_over:
            outputs = "1 output" if keras.units == 1 else f"{keras.units} outputs"
            classes = f"have {keras.target_shape[-1]} classes" if is_short else "have more classes"
            yield self.finding(
                evidence.location,
                f"the last layer has {outputs}, but the labels {classes}",
                help="give the last layer one output for each class",
                subject="loss",
                claim=Claim(is_short),
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        keras, claim = evidence.keras, finding.claim
        if claim is None or keras is None or not keras.target_shape or keras.units is None:
            return Verdict.inconclusive(evidence.not_reached("forward"))
        shapes = f"`{keras.loss}` gets targets {list(keras.target_shape)} for outputs {list(keras.output_shape)}"
        if claim.is_one_hot:
            is_equal = keras.target_shape[-1] == keras.units and len(keras.target_shape) == len(keras.output_shape)
            return Verdict.refuted(shapes) if is_equal else Verdict.confirmed(shapes, stage="forward")
        if evidence.failed_with("out of bounds", "Received a label value") is not None:
            return Verdict.confirmed(f"{shapes}, and a label is out of bounds", stage="forward")
        if keras.units == 1:
            return Verdict.inconclusive(f"{shapes}, and raises no error")
        return Verdict.refuted(f"{shapes}, and raises no error")


def _differ(loss: str, labels: KerasLabels | LabelledBatches, units: int) -> bool:
    count = labels.classes
    if labels.is_one_hot:
        # A folder with a single class is no task, so its one-hot rows have two entries or more.
        return loss in ONE_HOT_LOSSES and (units != count if count else units == 1 and loss == "binary_crossentropy")
    if count is None:
        return loss == "binary_crossentropy" and units == 2 and isinstance(labels, KerasLabels)
    if loss == "binary_crossentropy":
        # Folders of two classes give one number per image.
        return (units == 1 and count > 2) or (units == 2 and count == 2)
    return loss == "sparse_categorical_crossentropy" and units < count


def _remedy(labels: KerasLabels | LabelledBatches, units: int) -> str:
    if not labels.classes and not labels.is_one_hot:
        return "use `sparse_categorical_crossentropy`, or one output with a sigmoid"
    if labels.classes == 2 and units == 2 and not labels.is_one_hot:
        return "write one unit with a sigmoid, or use `sparse_categorical_crossentropy` and a softmax"
    if labels.classes:
        return f"write {labels.classes} units in the last layer"
    is_folder = isinstance(labels, LabelledBatches) and units == 1
    return 'pass `class_mode="binary"`, or write one unit per class' if is_folder else "write one unit per class"
