"""A pretrained model is compiled with the name of an optimizer, and therefore with its default learning rate.

`compile(optimizer="adam")` uses a learning rate of 0.001. This is right for a network that is trained from scratch, but
twenty to a hundred times too high for a pretrained transformer: the first steps destroy its weights, and it predicts
the same class for every row. No error is raised.

## Bad

    try:
        from transformers import TFAutoModelForSequenceClassification
    except ImportError:
        raise SystemExit("needs transformers 4, which has models for TensorFlow") from None

    model = TFAutoModelForSequenceClassification.from_pretrained("bert-base-uncased", num_labels=3)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="adam", loss=loss)  # <- string-optimizer
    model.fit(train_set, epochs=3)

## Good

    try:
        from transformers import TFAutoModelForSequenceClassification
    except ImportError:
        raise SystemExit("needs transformers 4, which has models for TensorFlow") from None

    model = TFAutoModelForSequenceClassification.from_pretrained("bert-base-uncased", num_labels=3)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.Adam(5e-5), loss=loss)
    model.fit(train_set, epochs=3)

## When it is fine

The network is trained from scratch, or its pretrained part is frozen:

    small = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(3, activation="softmax")])
    small.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    small.fit(x_train, y_train)

    try:
        from transformers import TFAutoModel
    except ImportError:
        raise SystemExit("needs transformers 4, which has models for TensorFlow") from None

    bert = TFAutoModel.from_pretrained("bert-base-uncased")
    bert.trainable = False
    tokens = keras.Input((128,), dtype="int32")
    classes = keras.layers.Dense(3, activation="softmax")(bert(tokens)[0])
    frozen = keras.Model(tokens, classes)
    frozen.compile(optimizer="adam", loss="sparse_categorical_crossentropy")

A single batch is a demonstration, not a training run:

    try:
        from transformers import TFAutoModelForSequenceClassification
    except ImportError:
        raise SystemExit("needs transformers 4, which has models for TensorFlow") from None

    model = TFAutoModelForSequenceClassification.from_pretrained("bert-base-uncased", num_labels=3)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="adam", loss=loss)
    model.train_on_batch(dict(tokenizer(["Good.", "Bad."], return_tensors="tf")), [1, 0])

## Fix

Asks first: 5e-5 is a common learning rate for fine-tuning, but not the one that the name implies.

## References

transformers#13547, transformers#8960; keras-bert#11; Keras documentation, "Optimizers".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import keras_runs
from lintrain.pipeline.values.model import Model
from lintrain.pipeline.values.python import LibraryObject, Sequence, Value, is_missing, text_of
from lintrain.pipeline.values.training import KerasRun
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, dataclass, fixes

RATES = {
    "adadelta": 0.001,
    "adagrad": 0.001,
    "adam": 0.001,
    "adamax": 0.001,
    "adamw": 0.001,
    "nadam": 0.001,
    "rmsprop": 0.001,
    "sgd": 0.01,
}
"""The default learning rates in Keras 3.15."""

LOWEST = 0.999e-3
"""The lowest of these rates, rounded to float32."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The name that the script has for Keras, None if it does not import it."""

    keras: str | None


class StringOptimizer(Rule[Claim]):
    level = Level.ERROR
    keywords = "compile"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for run in pipeline.keras_runs:
            name = text_of(run.value("optimizer"))
            trained = [model for model in keras_runs.backbones(run.model) if not model.frozen and not model.is_adapted]
            if name is not None and name.lower() in RATES and trained and run.fits and not _may_set_rate(run):
                yield self._report(pipeline, run, name, trained[0])

    def _report(self, pipeline: Pipeline, run: KerasRun, name: str, model: Model) -> Finding[Claim]:
        checkpoint = text_of(model.checkpoint) or model.name
        keras = keras_runs.keras_name(pipeline)
        return self.finding(
            run.compile_arguments["optimizer"].location,
            f'optimizer "{name}" trains a pretrained model at its default rate, {RATES[name.lower()]:g}',
            related=[Related(model.origin, f"pretrained: {checkpoint}", "origin")] if model.origin else [],
            help=f"pass `{keras or 'keras'}.optimizers.Adam(5e-5)`",
            subject="optimizer",
            claim=Claim(keras),
        )

    # A run suspects nothing by itself: what it shows is the rate, of which `high-learning-rate` speaks.
    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        model, step = evidence.model, evidence.step
        if evidence.keras is None or model is None or step is None:
            return Verdict.inconclusive(evidence.not_reached("step"))
        if not model.pretrained:
            return Verdict.inconclusive(f"none of the {model.parameters} weights were loaded from a checkpoint")
        rate = evidence.peak_learning_rate or 0.0
        text = f"`{step.optimizer}` trains {step.trainable_tensors} tensors of a pretrained model at a rate of {rate:g}"
        return Verdict.confirmed(text, stage="step") if rate >= LOWEST else Verdict.refuted(text)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        keras = finding.claim.keras if finding.claim else None
        code = f"{keras or 'keras'}.optimizers.Adam(5e-5)"
        imports = () if keras else (fixes.AddImport("keras"),)
        return fixes.Fix.of(f"pass `{code}`", *imports, fixes.Replace(finding.location, code), safe=False)


def _may_set_rate(run: KerasRun) -> bool:
    """Whether the script accesses the compiled optimizer, or passes callbacks to `fit` that may set its rate."""
    callbacks = [arguments["callbacks"].value for _, arguments in run.fits if "callbacks" in arguments]
    return run.is_optimizer_touched or any(_may_be_schedule(value) for value in callbacks)


def _may_be_schedule(callbacks: Value) -> bool:
    if is_missing(callbacks):
        return False
    if not isinstance(callbacks, Sequence) or not callbacks.is_complete:
        return True
    return any(not isinstance(each, LibraryObject) or "LearningRate" in each.path for each in callbacks.items)
