"""A cross-entropy that expects probabilities gets logits.

A string such as `"sparse_categorical_crossentropy"` stands for `from_logits=False`: the loss takes its inputs for
probabilities. The outputs of a last layer without activation, or of a model of transformers, are logits: they are
clipped and normalised into something else, and the network learns badly or not at all. No error appears.

## Bad

    network = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(3)])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")  # <- keras-logits-loss
    network.fit(x_train, y_train)

## Good

    network = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(3)])
    network.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.fit(x_train, y_train)

## When it is fine

The last layer gives probabilities, as activation or as a layer of its own:

    network = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(3, activation="softmax")])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")

    network = keras.Sequential([keras.layers.Dense(3), keras.layers.Softmax()])
    network.compile(optimizer="adam", loss="sparse_categorical_crossentropy")

## Fix

Safe where the last layer stands in the script and has no activation. Asks first for models of a library.

## References

transformers#13547; Keras documentation, "Probabilistic losses".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import keras_runs
from lintrain.pipeline.values.model import Layer, Model, Network, Task
from lintrain.pipeline.values.python import Constant, LibraryObject, Value, is_missing, number_of, text_of
from lintrain.pipeline.values.training import KerasRun
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, fixes

LOSSES = {
    "sparse_categorical_crossentropy": "SparseCategoricalCrossentropy",
    "categorical_crossentropy": "CategoricalCrossentropy",
    "binary_crossentropy": "BinaryCrossentropy",
}
CLASSIFIERS = frozenset({Task.SEQUENCE_CLASSIFICATION, Task.TOKEN_CLASSIFICATION, Task.IMAGE_CLASSIFICATION})


class KerasLogitsLoss(Rule):
    level = Level.ERROR
    keywords = "compile"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for run in pipeline.keras_runs:
            loss = _probability_loss(run.value("loss"))
            output = _logits_of(run)
            if loss is not None and output is not None:
                yield self._report(pipeline, run, loss, output)

    def _report(self, pipeline: Pipeline, run: KerasRun, loss: str, output: Layer | Model) -> Finding:
        is_mild = isinstance(output, Layer) and number_of(output.arguments.get("units", Constant(None))) == 1
        is_layer = isinstance(output, Layer)
        note = "the last layer: no activation" if is_layer else "models of transformers give logits"
        keras = keras_runs.keras_name(pipeline)
        code = f"{keras or 'keras'}.losses.{loss}(from_logits=True)"
        return self.finding(
            run.compile_arguments["loss"].location,
            f"this loss takes the logits of {'the last layer' if is_layer else 'the model'} for probabilities",
            related=[Related(output.origin, note, "origin")] if output.origin else [],
            help=f"pass `{code}`",
            subject="loss",
            level=Level.WARNING if is_mild else Level.ERROR,
            facts={"code": code, "keras": keras, "is_layer": is_layer},
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        keras = evidence.keras
        if keras is None or not keras.loss or keras.are_within_one is None:
            return Verdict.inconclusive(evidence.not_reached("forward"))
        if keras.from_logits:
            return Verdict.refuted(f"`{keras.loss}` takes {keras.span} for logits")
        if not keras.are_within_one:
            return Verdict.confirmed(f"`{keras.loss}` takes {keras.span} for probabilities", stage="forward")
        if keras.are_probabilities or keras.loss == "binary_crossentropy":
            return Verdict.refuted(f"{keras.span} are probabilities")
        return Verdict.inconclusive(f"{keras.span} may be either")

    def fix(self, finding: Finding) -> fixes.Fix | None:
        code = finding.facts.get("code")
        if not isinstance(code, str):
            return None
        imports = () if finding.facts.get("keras") else (fixes.AddImport("keras"),)
        safe = finding.facts.get("is_layer") is True
        return fixes.Fix.of(f"pass `{code}`", *imports, fixes.Replace(finding.location, code), safe=safe)


def _probability_loss(loss: Value) -> str | None:
    """The class of a cross-entropy that certainly takes its inputs for probabilities."""
    if isinstance(loss, Constant) and not loss.is_default:
        return LOSSES.get((text_of(loss) or "").lower())
    if isinstance(loss, LibraryObject) and loss.path.removeprefix("keras.losses.") in LOSSES.values():
        flag = loss.arguments.get("from_logits", loss.arguments.get("0"))
        is_off = flag is None or (isinstance(flag, Constant) and flag.value is False and not flag.is_default)
        return loss.path.rpartition(".")[2] if is_off and "**" not in loss.arguments else None
    return None


def _logits_of(run: KerasRun) -> Layer | Model | None:
    """The layer or model that certainly gives logits."""
    model = run.model
    if isinstance(model, Model):
        return model if model.framework == "tf" and model.task in CLASSIFIERS else None
    if not isinstance(model, Network) or model.last is None or model.last.path != "keras.layers.Dense":
        return None
    activation = model.last.arguments.get("activation", Constant(None))
    is_linear = is_missing(activation) or text_of(activation) == "linear"
    return model.last if is_linear and "**" not in model.last.arguments else None
