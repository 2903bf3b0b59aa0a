"""A cross-entropy of Keras gets its labels in the other form.

`sparse_categorical_crossentropy` wants the number of each row's class, `categorical_crossentropy` a row of zeros with a
one. With the other form the first batch ends the run, with an error about shapes that names neither loss nor labels.

## Bad

    network = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")  # <- keras-sparse-mismatch
    network.fit(x_train, keras.utils.to_categorical(y_train, 3), verbose=0)
    # raises must have the same shape up until the last dimension

Numbers for a loss of one-hot rows:

    one_hot = keras.utils.to_categorical(y_train, 3)
    network = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss="categorical_crossentropy")  # <- keras-sparse-mismatch
    network.fit(x_train, one_hot.argmax(axis=1), verbose=0)
    # raises must have the same shape

## Good

    network = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss="categorical_crossentropy")
    network.fit(x_train, keras.utils.to_categorical(y_train, 3), verbose=0)

Numbers for the loss of numbers:

    one_hot = keras.utils.to_categorical(y_train, 3)
    network = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    network.fit(x_train, one_hot.argmax(axis=1), verbose=0)

## When it is fine

Labels that were made elsewhere may have either form:

    from my_data import load_labels

    network = keras.Sequential([keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss="categorical_crossentropy")
    network.fit(x_train, load_labels())

A loss of one's own may take any:

    def distance(wanted, given):
        return keras.ops.mean(keras.ops.square(wanted - given), axis=-1)

    network = keras.Sequential([keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss=distance)
    network.fit(x_train, keras.utils.to_categorical(y_train, 3), verbose=0)

## Fix

Asks first: the targets may be meant to be changed, and not the loss.

## References

Keras documentation, "Probabilistic losses".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import keras_runs
from lintrain.pipeline.values.keras import KerasLabels, LabelledBatches
from lintrain.pipeline.values.python import Constant
from lintrain.pipeline.values.training import KerasRun
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, fixes

WANTS_ONE_HOT = {"sparse_categorical_crossentropy": False, "categorical_crossentropy": True}


class KerasSparseMismatch(Rule):
    level = Level.ERROR
    keywords = "compile"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for run in pipeline.keras_runs:
            loss, labels = keras_runs.loss_of(run), _labels_of(run)
            if loss is None or labels is None or loss.name not in WANTS_ONE_HOT:
                continue
            if WANTS_ONE_HOT[loss.name] is not labels.is_one_hot:
                yield self._report(run, labels, loss.name)

    def _report(self, run: KerasRun, labels: KerasLabels | LabelledBatches, name: str) -> Finding:
        given = "one-hot rows" if labels.is_one_hot else "numbers of classes"
        other = next(each for each in WANTS_ONE_HOT if each != name)
        return self.finding(
            run.compile_arguments["loss"].location,
            f"`{name}` gets labels that are {given}",
            related=[Related(labels.origin, f"{given}", "labels")] if labels.origin else [],
            help=f"take `{other}`",
            subject="loss",
            facts={"other": other if isinstance(run.value("loss"), Constant) else None},
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        keras = evidence.keras
        if keras is None or keras.targets_are_rows is None or keras.loss not in WANTS_ONE_HOT:
            return Verdict.inconclusive(evidence.not_reached("forward"))
        shapes = f"targets {list(keras.target_shape)} for outputs {list(keras.output_shape)}"
        if WANTS_ONE_HOT[keras.loss] is keras.targets_are_rows:
            return Verdict.refuted(f"`{keras.loss}` gets {shapes}")
        if evidence.failed_with("shape", "Shapes "):
            return Verdict.confirmed(f"`{keras.loss}` gets {shapes}", stage="forward")
        return Verdict.inconclusive(f"`{keras.loss}` gets {shapes} and raises nothing")

    def fix(self, finding: Finding) -> fixes.Fix | None:
        other = finding.facts.get("other")
        return (
            fixes.Fix.of(f"take `{other}`", fixes.Replace(finding.location, f'"{other}"'), safe=False)
            if other
            else None
        )


def _labels_of(run: KerasRun) -> KerasLabels | LabelledBatches | None:
    """The labels that every `fit` of a run is given, where their form is known; None where it is not, or differs."""
    found: list[KerasLabels | LabelledBatches] = []
    for _, arguments in run.fits:
        given = arguments.get("y") or arguments.get("x")
        if given is None or not isinstance(given.value, KerasLabels | LabelledBatches):
            return None
        found.append(given.value)
    return found[0] if found and len({labels.is_one_hot for labels in found}) == 1 else None
