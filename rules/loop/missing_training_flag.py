"""A custom Keras `train_step` calls the model without `training=True`.

Dropout and batch normalization depend on the `training` argument of each call. In a custom `train_step`, and in a loop
with a `tf.GradientTape`, it is False unless `training=True` is passed: dropout is disabled, and the moving averages of
batch normalization are never updated. The model overfits, or predicts with the initial statistics.

## Bad

    class Classifier(keras.Model):
        def __init__(self):
            super().__init__()
            self.hidden = keras.layers.Dense(32, activation="relu")
            self.dropout = keras.layers.Dropout(0.5)
            self.last = keras.layers.Dense(3)

        def call(self, inputs, training=None):
            return self.last(self.dropout(self.hidden(inputs), training=training))

        def train_step(self, data):
            x, y = data
            self.zero_grad()
            scores = self(x)  # <- missing-training-flag
            loss = self.compute_loss(y=y, y_pred=scores)
            loss.backward()
            weights = [weight for weight in self.trainable_weights]
            with torch.no_grad():
                self.optimizer.apply([weight.value.grad for weight in weights], weights)
            return {"loss": loss}

    network = Classifier()
    network.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.fit(x_train, y_train, verbose=0)

## Good

    class Classifier(keras.Model):
        def __init__(self):
            super().__init__()
            self.hidden = keras.layers.Dense(32, activation="relu")
            self.dropout = keras.layers.Dropout(0.5)
            self.last = keras.layers.Dense(3)

        def call(self, inputs, training=None):
            return self.last(self.dropout(self.hidden(inputs), training=training))

        def train_step(self, data):
            x, y = data
            self.zero_grad()
            scores = self(x, training=True)
            loss = self.compute_loss(y=y, y_pred=scores)
            loss.backward()
            weights = [weight for weight in self.trainable_weights]
            with torch.no_grad():
                self.optimizer.apply([weight.value.grad for weight in weights], weights)
            return {"loss": loss}

    network = Classifier()
    network.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.fit(x_train, y_train, verbose=0)

## When it is fine

Layers that behave the same in both modes do not need the argument:

    class Classifier(keras.Model):
        def __init__(self):
            super().__init__()
            self.last = keras.layers.Dense(3)

        def call(self, inputs):
            return self.last(inputs)

        def train_step(self, data):
            x, y = data
            return {"loss": self.compute_loss(y=y, y_pred=self(x))}

    Classifier()(x_train)

An evaluation step must not use dropout:

    class Classifier(keras.Model):
        def __init__(self):
            super().__init__()
            self.dropout = keras.layers.Dropout(0.5)
            self.last = keras.layers.Dense(3)

        def call(self, inputs):
            return self.last(self.dropout(inputs))

        def test_step(self, data):
            x, y = data
            return {"loss": self.compute_loss(y=y, y_pred=self(x))}

    Classifier()(x_train)

## Fix

Asks first: the fix enables dropout and batch statistics, and this call may be meant for evaluation.

## References

Keras documentation, "Customizing what happens in `fit()`".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import expressions, gradient_tapes, script_text
from lintrain.rule import Evidence, Finding, Level, Pipeline, Rule, Verdict, fixes, lazy_pattern

KERAS_MODEL = lazy_pattern(r"(^|\.)(keras|models?)\.(Model|Sequential)$|^(Model|Sequential)$")
MODAL = lazy_pattern(r"^(\w*Dropout\w*|BatchNormalization|GaussianNoise|Random[A-Z]\w+|SpectralNormalization)$")
"""Keras layers that behave differently in training and inference."""


class MissingTrainingFlag(Rule):
    level = Level.WARNING
    keywords = "train_step|GradientTape"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for passed in gradient_tapes.passes_without_flag(pipeline.source):
            yield self.finding(
                pipeline.source.location(passed),
                "this pass of a training step runs without `training=True`",
                help="pass `training=True`",
                subject="self",
            )
        if "train_step" not in pipeline.source.text or not _imports_keras(pipeline):
            return
        for cls in expressions.classes_in_file(pipeline.source):
            if _is_model(cls) and _has_modal_layer(cls):
                for call in _calls_without_flag(cls):
                    yield self.finding(
                        call.location,
                        "`train_step` calls the model without `training=True`",
                        help="pass `training=True`",
                        subject="self",
                    )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        keras = evidence.keras
        if keras is not None and keras.untrained_at is not None and not keras.modal_calls_in_training:
            yield self.finding(
                keras.untrained_at,
                "this training step calls the model without `training=True`",
                help="pass `training=True`",
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        keras = evidence.keras
        if keras is None:
            return Verdict.inconclusive(evidence.not_reached("forward"))
        in_training, calls = keras.modal_calls_in_training, keras.modal_calls
        text = f"{in_training} of {calls} dropout and normalization calls in a training step had `training=True`"
        if calls and not in_training:
            return Verdict.confirmed(text, stage="forward")
        return Verdict.refuted(text) if calls and in_training == calls else Verdict.inconclusive(text)

    def fix(self, finding: Finding) -> fixes.Fix:
        return fixes.Fix.of("pass `training=True`", fixes.AddArgument(finding.location, "training", "True"), safe=False)


def _imports_keras(pipeline: Pipeline) -> bool:
    modules = {each.module.partition(".")[0] for each in script_text.imports_of(pipeline.source)}
    return not modules.isdisjoint({"keras", "tensorflow", "tf_keras"})


def _is_model(cls: expressions.ClassCode) -> bool:
    return any(KERAS_MODEL.search(base) for base in cls.bases)


def _has_modal_layer(cls: expressions.ClassCode) -> bool:
    """Whether the class itself creates a layer that depends on the mode."""
    return any(MODAL.match(call.called_name) for call in cls.calls)


def _calls_without_flag(cls: expressions.ClassCode) -> Iterator[expressions.Expression]:
    """Calls of the model in its own `train_step` without the mode."""
    for call in cls.calls_by_method.get("train_step", ()):
        is_own = call.called_name == "self" and call.called_on is None
        if is_own and len(call.arguments) == 1 and not call.keywords:
            yield call
