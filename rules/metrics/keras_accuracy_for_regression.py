"""A Keras network for regression is measured by accuracy.

With a squared or absolute error as the loss and one output without a limit, the targets are numbers. Keras then
computes a binary accuracy: it rounds every output to 0 or 1 and counts those that equal the target. The figure stays
near 0 however good the predictions are, and callbacks that monitor it choose a random epoch. No error is raised.

## Bad

    network = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)])
    network.compile(optimizer="adam", loss="mse", metrics=["accuracy"])  # <- keras-accuracy-for-regression
    network.fit(x_train, x_train[:, :1], verbose=0)

## Good

    network = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)])
    network.compile(optimizer="adam", loss="mse", metrics=["mae"])
    network.fit(x_train, x_train[:, :1], verbose=0)

## When it is fine

Classes may be trained with a squared error:

    network = keras.Sequential([keras.layers.Dense(1, activation="sigmoid")])
    network.compile(optimizer="adam", loss="mse", metrics=["accuracy"])
    network.fit(x_train, y_train, verbose=0)

Several outputs may be one-hot rows, for which Keras compares the largest entries:

    network = keras.Sequential([keras.layers.Dense(3)])
    network.compile(optimizer="adam", loss="mse", metrics=["accuracy"])
    network.fit(x_train, keras.utils.to_categorical(y_train, 3), verbose=0)

## Fix

None: `mae`, `RootMeanSquaredError` or `R2Score` may be meant.

## References

Keras documentation, "Regression metrics".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import keras_runs
from lintrain.pipeline.values.python import Constant, Sequence, Value
from lintrain.pipeline.values.training import KerasLabels, LabelledBatches
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict

ERRORS = frozenset(
    {
        "mean_squared_error",
        "mean_absolute_error",
        "mean_absolute_percentage_error",
        "mean_squared_logarithmic_error",
        "huber",
        "log_cosh",
    }
)
WITHOUT_LIMIT = frozenset({"linear", "relu", "softplus"})
"""Activations whose numbers are no probabilities."""

ACCURACIES = frozenset({"accuracy", "acc", "binary_accuracy"})


class KerasAccuracyForRegression(Rule):
    level = Level.WARNING
    keywords = "compile & metrics"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[None]]:
        for run in pipeline.keras_runs:
            loss, metrics = keras_runs.loss_of(run), run.compile_arguments.get("metrics")
            is_number = keras_runs.output_units(run) == 1 and keras_runs.activation_at_end(run) in WITHOUT_LIMIT
            # A `compile` without `fit` shows how it is written.
            if loss is None or metrics is None or not is_number or loss.name not in ERRORS or not run.fits:
                continue
            metric = _accuracy_among(metrics.value)
            if metric is None or isinstance(keras_runs.labels_of(run), KerasLabels | LabelledBatches):
                continue
            made = run.output.origin
            yield self.finding(
                metrics.location,
                f'`metrics=["{metric}"]` rounds to 0 or 1, but the loss is for numbers',
                related=[Related(made, "the last layer has 1 output without a limit", "origin")] if made else [],
                help='measure `"mae"` instead',
                subject="metrics",
            )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[None]]:
        if evidence.keras is not None:
            yield self.finding(
                evidence.location,
                "an accuracy rounds outputs to 0 or 1, but the loss is for numbers",
                help='measure `"mae"` instead',
                subject="metrics",
            )

    def verify(self, finding: Finding[None], evidence: Evidence) -> Verdict:
        keras, watched = evidence.keras, evidence.watched_names
        measured = watched.computed if watched is not None else ()
        if keras is None or keras.fractions is None or keras.loss not in ERRORS:
            return Verdict.inconclusive("0 targets of a loss for numbers were seen")
        named = [name for name in measured if name.removeprefix("val_") in ACCURACIES]
        text = f"{keras.fractions:.0%} of the targets of `{keras.loss}` are fractions"
        if named and keras.fractions:
            return Verdict.confirmed(f"{text}, and `{named[0]}` is computed", fractions=keras.fractions)
        if measured:
            return Verdict.refuted(f"{text}, and {len(named)} accuracies are computed", fractions=keras.fractions)
        return Verdict.inconclusive(f"{text}; no metric was computed")


def _accuracy_among(metrics: Value) -> str | None:
    items = metrics.items if isinstance(metrics, Sequence) else [metrics]
    names = [item.value for item in items if isinstance(item, Constant) and not item.may_differ]
    return next((name for name in names if isinstance(name, str) and name in ACCURACIES), None)
