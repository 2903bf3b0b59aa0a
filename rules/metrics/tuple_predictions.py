"""The predictions are a tuple, and the metric function takes them for logits.

A model that also gives its hidden states, or the states of its encoder, hands on a tuple: the logits first, the rest
after them. An argmax over such a tuple raises an error about inhomogeneous shapes at the first evaluation.

## Bad

    talkative = AutoModelForSequenceClassification.from_pretrained(checkpoint, num_labels=3, output_hidden_states=True)

    def compute_metrics(prediction):
        predictions, labels = prediction
        classes = np.argmax(predictions, axis=-1)  # <- tuple-predictions
        return {"accuracy": accuracy_score(labels, classes)}

    trainer = Trainer(
        talkative,
        TrainingArguments("out", eval_strategy="epoch"),
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        compute_metrics=compute_metrics,
    )

## Good

    talkative = AutoModelForSequenceClassification.from_pretrained(checkpoint, num_labels=3, output_hidden_states=True)

    def compute_metrics(prediction):
        predictions, labels = prediction
        predictions = predictions[0] if isinstance(predictions, tuple) else predictions
        classes = np.argmax(predictions, axis=-1)
        return {"accuracy": accuracy_score(labels, classes)}

    trainer = Trainer(
        talkative,
        TrainingArguments("out", eval_strategy="epoch"),
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        compute_metrics=compute_metrics,
    )

## When it is fine

The logits may be picked out before the metric function is called, or nothing else be kept at all:

    talkative = AutoModelForSequenceClassification.from_pretrained(checkpoint, num_labels=3, output_hidden_states=True)

    def first(outputs, labels):
        return outputs[0]

    trainer = Trainer(
        talkative,
        TrainingArguments("out", eval_strategy="epoch"),
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        compute_metrics=compute_metrics,
        preprocess_logits_for_metrics=first,
    )

## Fix

Safe where the model certainly gives a tuple. Asks first where it may give one.

## References

Transformers documentation, `Trainer.prediction_step` and `preprocess_logits_for_metrics`; ChatGLM3#376.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import trainer_methods
from lintrain.pipeline.events import Act
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.model import Model, Tensor
from lintrain.pipeline.values.python import Sequence
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, fixes

USES = {"argmax": "an argmax", "compute": "a metric", "where": "`where`"}
IGNORED = {"ignore_keys", "ignore_keys_for_eval"}


class TuplePredictions(Rule):
    level = Level.ERROR
    keywords = "Trainer"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        if any(IGNORED & set(event.details) for event in pipeline.acts(Act.TRAIN, Act.EVALUATE)):
            return
        seen = set[object]()
        for misuse in pipeline.misuses:
            model = _model_of(misuse)
            if (
                misuse.use not in USES
                or model is None
                or misuse.location in seen
                or _should_be_text(pipeline, misuse, model)
            ):
                continue
            seen.add(misuse.location)
            yield self._report(misuse, model)

    def _report(self, misuse: Misuse, model: Model) -> Finding:
        why = "its encoder's states come with the logits"
        asked = [name for name in ("output_hidden_states", "output_attentions") if name in model.arguments]
        location = model.argument_locations[asked[0]] if asked else model.origin
        if asked:
            why = "asks for more than logits"
        return self.finding(
            misuse.location,
            f"`{misuse.text}` is a tuple, the logits and more, and {USES[misuse.use]} takes it for logits",
            related=[Related(location, why, "model", model.text)] if location else [],
            help=f"take the logits: `{misuse.text}[0]`",
            subject="compute_metrics",
            facts={"name": misuse.text},
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        evaluation, stage = evidence.evaluation, evidence.stage("evaluation")
        if evaluation is None or not evaluation.metric_function_called:
            return Verdict.inconclusive(evidence.not_reached("evaluation"))
        if not evaluation.predictions_are_tuple:
            return Verdict.refuted(f"the predictions are one array of shape {list(evaluation.predictions_shape)}")
        if stage is None or stage.failure is None:
            return Verdict.refuted(f"the metric function takes the tuple and gives {len(evaluation.metrics)} numbers")
        return Verdict.confirmed(
            f"predictions of type {evaluation.predictions} raise {stage.failure.type} after 2 batches"
        )

    def fix(self, finding: Finding) -> fixes.Fix | None:
        name = str(finding.facts.get("name") or "")
        if not name:
            return None
        if name.isidentifier():
            statement = f"{name} = {name}[0] if isinstance({name}, tuple) else {name}"
            return fixes.Fix.of(
                "take the logits out of the tuple", fixes.InsertBefore(finding.location, statement), safe=True
            )
        if all(letter.isalnum() or letter in "_." for letter in name):
            return fixes.Fix.of(
                "take the logits out of the tuple", fixes.Replace(finding.location, f"{name}[0]"), safe=False
            )
        return None


def _should_be_text(pipeline: Pipeline, misuse: Misuse, model: Model) -> bool:
    """Whether generated text was expected: `missing-predict-with-generate` names that mistake."""
    return misuse.use == "where" and any(
        run.model is model and trainer_methods.generates_nothing(run) for run in pipeline.runs
    )


def _model_of(misuse: Misuse) -> Model | None:
    """The model whose outputs a tuple holds."""
    if not isinstance(misuse.value, Sequence) or not misuse.value.items:
        return None
    first = misuse.value.items[0]
    return first.model if isinstance(first, Tensor) and isinstance(first.model, Model) else None
