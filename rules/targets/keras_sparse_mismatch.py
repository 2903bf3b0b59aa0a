"""A Keras cross-entropy gets labels in the wrong format.

`sparse_categorical_crossentropy` expects class indices, `categorical_crossentropy` one-hot rows. With the other format
the first batch raises an error about shapes that mentions neither the loss nor the labels.

## Bad

    network = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")  # <- keras-sparse-mismatch
    network.fit(x_train, keras.utils.to_categorical(y_train, 3), verbose=0)
    # raises must have the same shape up until the last dimension

Class indices for a loss that expects one-hot rows:

    one_hot = keras.utils.to_categorical(y_train, 3)
    network = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss="categorical_crossentropy")  # <- keras-sparse-mismatch
    network.fit(x_train, one_hot.argmax(axis=1), verbose=0)
    # raises must have the same shape

Labels of the evaluation that were left as they are, so the first epoch ends with the error:

    one_hot = keras.utils.to_categorical(y_train, 3)
    network = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss="categorical_crossentropy")
    held_out = (x_train[:8], one_hot[:8].argmax(axis=1))
    network.fit(x_train, one_hot, validation_data=held_out, verbose=0)  # <- keras-sparse-mismatch
    # raises must have the same shape

## Good

    network = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss="categorical_crossentropy")
    network.fit(x_train, keras.utils.to_categorical(y_train, 3), verbose=0)

Class indices for the sparse loss:

    one_hot = keras.utils.to_categorical(y_train, 3)
    network = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    network.fit(x_train, one_hot.argmax(axis=1), verbose=0)

## When it is fine

Labels from other code may have either format:

    from my_data import load_labels

    network = keras.Sequential([keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss="categorical_crossentropy")
    network.fit(x_train, load_labels())

A custom loss may accept any format:

    def distance(wanted, given):
        return keras.ops.mean(keras.ops.square(wanted - given), axis=-1)

    network = keras.Sequential([keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss=distance)
    network.fit(x_train, keras.utils.to_categorical(y_train, 3), verbose=0)

## Fix

Asks first: changing the labels instead of the loss may be the better fix.

## References

Keras documentation, "Probabilistic losses".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import keras_runs, uneven_splits
from lintrain.pipeline.values.python import Constant, Library, LibraryObject, Sequence, Value
from lintrain.pipeline.values.training import KerasLabels, KerasRun, LabelledBatches
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, dataclass, fixes

EXPECTS_ONE_HOT = {"sparse_categorical_crossentropy": False, "categorical_crossentropy": True}

FOR_EACH_OUTPUT = frozenset(
    {"AUC", "BinaryAccuracy", "FalseNegatives", "FalsePositives", "Precision", "PrecisionAtRecall", "Recall"}
    | {"RecallAtPrecision", "SensitivityAtSpecificity", "SpecificityAtSensitivity", "TrueNegatives", "TruePositives"}
)
"""Metrics that compare labels with outputs one by one, so both must have the same shape."""


OF_ONE_FORMAT = {
    "SparseCategoricalAccuracy": False,
    "sparse_categorical_accuracy": False,
    "CategoricalAccuracy": True,
    "categorical_accuracy": True,
}
"""Metrics that read labels in one format only, and whether that is one-hot rows."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The name of the loss that fits the labels; None if the script passes no name of a loss."""

    other: str | None


class KerasSparseMismatch(Rule[Claim]):
    level = Level.ERROR
    keywords = "compile"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for run in pipeline.keras_runs:
            loss, labels = keras_runs.loss_of(run), keras_runs.labels_of(run)
            if loss is None or loss.name not in EXPECTS_ONE_HOT:
                continue
            if labels is None and EXPECTS_ONE_HOT[loss.name] and (keras_runs.output_units(run) or 0) > 1:
                labels = keras_runs.columns_of(run)
            if labels is not None and EXPECTS_ONE_HOT[loss.name] is not labels.is_one_hot:
                yield self._report(run, labels, loss.name)
            else:
                yield from self._report_metrics(run, loss.name)
                yield from self._report_evaluation(run, loss.name)

        losses = {loss.name for run in pipeline.keras_runs if (loss := keras_runs.loss_of(run)) is not None}
        if losses and losses <= EXPECTS_ONE_HOT.keys():
            yield from map(self._report_part, uneven_splits.unencoded_parts(pipeline.source))

    def _report_part(self, found: uneven_splits.Uneven) -> Finding[Claim]:
        return self.finding(
            found.location,
            f"`{found.name}` holds class indices, but `{found.other}` is one-hot"
            if len(found.name) + len(found.other) < 40
            else "these labels are class indices, but those of the other part are one-hot",
            related=[Related(found.changed, "the other part is made one-hot here", "labels")],
            help="convert both parts alike",
            subject="labels" if found.is_training else "evaluation",
            claim=Claim(None),
        )

    def _report_metrics(self, run: KerasRun, loss: str) -> Iterator[Finding[Claim]]:
        """A metric that reads labels in another way than the loss, which counts nonsense or ends the first batch."""
        given, is_one_hot = run.compile_arguments.get("metrics"), EXPECTS_ONE_HOT[loss]
        has_classes = not is_one_hot and (keras_runs.output_units(run) or 0) > 1
        for metric in _names_of(given.value) if given is not None else ():
            is_single = has_classes and metric in FOR_EACH_OUTPUT
            if given is None or not (is_single or OF_ONE_FORMAT.get(metric, is_one_hot) is not is_one_hot):
                continue
            reads = "compares one by one" if is_single else f"expects {_format(not is_one_hot)}"
            fitting = next((each for each, hot in OF_ONE_FORMAT.items() if hot is is_one_hot and each[0].isupper()), "")
            yield self.finding(
                given.location,
                f"`{metric}` {reads}, but labels are {_format(is_one_hot)}",
                help="use one-hot labels with `categorical_crossentropy`, or a metric for class indices"
                if is_single
                else f"use `{fitting}`, or `accuracy`, which fits the loss",
                subject="metrics",
                level=Level.ERROR if is_single else Level.WARNING,
                claim=Claim(None),
            )
            return

    def _report_evaluation(self, run: KerasRun, loss: str) -> Iterator[Finding[Claim]]:
        """Labels of the evaluation that were left as they are, where those of training were converted."""
        for location, labels in keras_runs.labels_for_evaluation(run):
            if labels.is_one_hot is not EXPECTS_ONE_HOT[loss]:
                given, wanted = _format(labels.is_one_hot), _format(EXPECTS_ONE_HOT[loss])
                yield self.finding(
                    location,
                    f"these evaluation labels are {given}, and the loss expects {wanted}",
                    related=[Related(labels.origin, f"labels are {given}", "labels")] if labels.origin else [],
                    help="convert them as the training labels are converted",
                    subject="evaluation",
                    claim=Claim(None),
                )
                return

    def _report(self, run: KerasRun, labels: KerasLabels | LabelledBatches, name: str) -> Finding[Claim]:
        given, wanted = _format(labels.is_one_hot), _format(EXPECTS_ONE_HOT[name])
        other = next(each for each in EXPECTS_ONE_HOT if each != name)
        return self.finding(
            run.compile_arguments["loss"].location,
            f"`{name}` expects {wanted}, but gets {given}",
            related=[Related(labels.origin, f"labels are {given}", "labels")] if labels.origin else [],
            help=f"use `{other}`",
            subject="loss",
            claim=Claim(other if isinstance(run.value("loss"), Constant) else None),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        keras = evidence.keras
        if keras is None or keras.loss not in EXPECTS_ONE_HOT or (keras.units or 0) < 2:
            return
        is_one_hot = EXPECTS_ONE_HOT[keras.loss]
        if keras.targets_are_rows is not None and keras.targets_are_rows is not is_one_hot:
            wanted, given = ("one-hot rows", "class indices") if is_one_hot else ("class indices", "one-hot rows")
            other = next(each for each in EXPECTS_ONE_HOT if each != keras.loss)
            yield self.finding(
                evidence.location,
                f"`{keras.loss}` expects {wanted}, but gets {given}",
                help=f"use `{other}`",
                subject="loss",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        keras = evidence.keras
        if finding.subject == "evaluation":
            return _on_evaluation(evidence)
        if keras is None or keras.targets_are_rows is None or keras.loss not in EXPECTS_ONE_HOT:
            return Verdict.inconclusive(evidence.not_reached("forward"))
        shapes = f"targets {list(keras.target_shape)} for outputs {list(keras.output_shape)}"
        if EXPECTS_ONE_HOT[keras.loss] is keras.targets_are_rows:
            return Verdict.refuted(f"`{keras.loss}` gets {shapes}")
        if evidence.failed_with("shape", "Shapes "):
            return Verdict.confirmed(f"`{keras.loss}` gets {shapes}", stage="forward")
        return Verdict.inconclusive(f"`{keras.loss}` gets {shapes} and raises no error")

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        other = finding.claim.other if finding.claim else None
        if not other:
            return None
        return fixes.Fix.of(f"use `{other}`", fixes.Replace(finding.location, f'"{other}"'), safe=False)


def _on_evaluation(evidence: Evidence) -> Verdict:
    """The verdict on labels that only an evaluation reads."""
    stage = evidence.stage("evaluation")
    if stage is None or stage.failure is None:
        is_done = stage is not None and stage.status == "passed"
        reason = "the evaluation raises no error" if is_done else evidence.not_reached("evaluation")
        return Verdict.refuted(reason) if is_done else Verdict.inconclusive(reason)
    if stage.failure.contains("shape", "Shapes "):
        return Verdict.confirmed(f"the evaluation raises {stage.failure.type}", stage="evaluation")
    return Verdict.inconclusive(f"the evaluation raises {stage.failure.type}")


def _format(is_one_hot: bool) -> str:
    return "one-hot rows" if is_one_hot else "class indices"


def _names_of(metrics: Value) -> Iterator[str]:
    """The names of the metrics in a list, by their classes."""
    for each in metrics.items if isinstance(metrics, Sequence) else [metrics]:
        match each:
            case LibraryObject(path=path) | Library(path=path) if path.startswith("keras.metrics."):
                yield path.rpartition(".")[2]
            case Constant(value=str() as name):
                yield name
            case _:
                pass
