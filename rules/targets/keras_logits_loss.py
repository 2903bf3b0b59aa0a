"""A cross-entropy that expects probabilities gets logits.

A string such as `"sparse_categorical_crossentropy"` means `from_logits=False`: the loss expects probabilities. A last
layer without activation and the models of transformers return logits. Keras clips and normalizes them as if they were
probabilities, and the network learns badly or not at all. No error is raised.

## Bad

    network = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(3)])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")  # <- keras-logits-loss
    network.fit(x_train, y_train)

## Good

    network = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(3)])
    network.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.fit(x_train, y_train)

## When it is fine

The last layer returns probabilities, by its activation or as a separate layer:

    network = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")

    network = keras.Sequential([keras.layers.Dense(3), keras.layers.Softmax()])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")

## Fix

Safe if the last layer is in the script and has no activation. Asks first for models of a library.

## References

transformers#13547; Keras documentation, "Probabilistic losses".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import keras_runs
from lintrain.pipeline.values.model import Layer, Model, Network, Task
from lintrain.pipeline.values.training import KerasRun
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, dataclass, fixes

LOSSES = {
    "sparse_categorical_crossentropy": "SparseCategoricalCrossentropy",
    "categorical_crossentropy": "CategoricalCrossentropy",
    "binary_crossentropy": "BinaryCrossentropy",
}
NO_LAYER = frozenset({"", "linear"})
"""Activations of the last layer that leave logits as they are; a model of the script's own shows none."""
CLASSIFIERS = frozenset({Task.SEQUENCE_CLASSIFICATION, Task.TOKEN_CLASSIFICATION, Task.IMAGE_CLASSIFICATION})


@dataclass(frozen=True, slots=True)
class Claim:
    """The code of the correct loss, and whether `keras` is imported and the logits come from a layer of the script."""

    code: str
    imports_keras: bool
    is_layer: bool


class KerasLogitsLoss(Rule[Claim]):
    level = Level.ERROR
    keywords = "compile|GradientTape"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for run in pipeline.keras_runs:
            loss = _probability_loss(run)
            output = _logits_of(run)
            if loss is not None and output is not None and not keras_runs.only_built_from(pipeline, run):
                yield self._report(pipeline, run, loss, output)

    def _report(self, pipeline: Pipeline, run: KerasRun, loss: str, output: Layer | Model) -> Finding[Claim]:
        is_mild = keras_runs.output_units(run) == 1
        is_layer = isinstance(output, Layer)
        note = "the last layer has no activation" if is_layer else "models of transformers return logits"
        keras = keras_runs.keras_name(pipeline)
        code = f"{keras or 'keras'}.losses.{loss}(from_logits=True)"
        return self.finding(
            run.compile_arguments["loss"].location,
            f"this loss expects probabilities, but {'the last layer' if is_layer else 'the model'} returns logits",
            related=[Related(output.origin, note, "origin")] if output.origin else [],
            help=f"pass `{code}`",
            subject="loss",
            level=Level.WARNING if is_mild else Level.ERROR,
            claim=Claim(code, bool(keras), is_layer),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        keras = evidence.keras
        if keras is not None and keras.loss in LOSSES and keras.from_logits is False and keras.activation in NO_LAYER:
            yield self.finding(
                evidence.location,
                f"`{keras.loss}` expects probabilities, but gets logits",
                help=f"use `{LOSSES[keras.loss]}(from_logits=True)`",
                subject="loss",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        keras = evidence.keras
        if keras is None or not keras.loss or keras.are_within_one is None:
            return Verdict.inconclusive(evidence.not_reached("forward"))
        if keras.from_logits:
            return Verdict.refuted(f"`{keras.loss}` expects logits and gets {keras.span}")
        if not keras.are_within_one:
            return Verdict.confirmed(f"`{keras.loss}` expects probabilities and gets {keras.span}", stage="forward")
        if keras.are_probabilities or keras.loss == "binary_crossentropy":
            return Verdict.refuted(f"{keras.span} are probabilities")
        return Verdict.inconclusive(f"{keras.span} may be logits or probabilities")

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        if claim is None:
            return None
        imports = () if claim.imports_keras else (fixes.AddImport("keras"),)
        edit = fixes.Replace(finding.location, claim.code)
        return fixes.Fix.of(f"pass `{claim.code}`", *imports, edit, safe=claim.is_layer)


def _probability_loss(run: KerasRun) -> str | None:
    """The class of a cross-entropy that certainly expects probabilities."""
    loss = keras_runs.loss_of(run)
    return LOSSES.get(loss.name) if loss is not None and loss.from_logits is False else None


def _logits_of(run: KerasRun) -> Layer | Model | None:
    """The layer or model that certainly returns logits."""
    model = run.model
    if isinstance(model, Model):
        return model if model.framework == "tf" and model.task in CLASSIFIERS else None
    if not isinstance(model, Network) or model.last is None or model.last.path not in keras_runs.WITH_UNITS:
        return None
    return model.last if keras_runs.activation_of(model.last) == "linear" else None
