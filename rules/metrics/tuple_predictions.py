"""The predictions are a tuple, but the metric function treats them as logits.

A model that also returns hidden states, or the states of its encoder, gives a tuple with the logits first. An argmax
over such a tuple raises an error about inhomogeneous shapes in the first evaluation.

What `Trainer.predict` returns is a tuple as well: predictions, labels and metrics. Two names cannot take it, and an
argmax over it fails.

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

The logits may be selected before the metric function is called:

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

Safe if the predictions have their own name. Asks first if they are an attribute.

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
from lintrain.pipeline.values.training import Predictions
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, dataclass, fixes, one_per_location

USES = {"argmax": "an argmax", "compute": "a metric", "where": "`where`"}
UNPACKED = "two of three"
IGNORED = {"ignore_keys", "ignore_keys_for_eval"}


@dataclass(frozen=True, slots=True)
class Claim:
    """The code of the tuple."""

    name: str


class TuplePredictions(Rule[Claim]):
    level = Level.ERROR
    keywords = "Trainer"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        if any(IGNORED & set(event.details) for event in pipeline.acts(Act.TRAIN, Act.EVALUATE)):
            return
        seen = set[object]()
        yield from one_per_location(
            self._of_result(misuse)
            for misuse in pipeline.misuses
            if isinstance(misuse.value, Predictions) and misuse.use in {*USES, UNPACKED}
        )
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

    def _of_result(self, misuse: Misuse) -> Finding[Claim]:
        is_unpacked = misuse.use == UNPACKED
        use = "two names get them" if is_unpacked else f"{USES[misuse.use]} treats them as logits"
        return self.finding(
            misuse.location,
            f"`predict` returns three parts, but {use}",
            help="bind all three, or read `.predictions` of the result",
        )

    def _report(self, misuse: Misuse, model: Model) -> Finding[Claim]:
        note = "also returns the states of its encoder"
        asked = [name for name in ("output_hidden_states", "output_attentions") if name in model.arguments]
        location = model.argument_locations[asked[0]] if asked else model.origin
        if asked:
            note = "requests more than logits"
        return self.finding(
            misuse.location,
            f"`{misuse.text}` is a tuple, but {USES[misuse.use]} treats it as logits",
            related=[Related(location, note, "model", model.text)] if location else [],
            help=f"select the logits: `{misuse.text}[0]`",
            subject="compute_metrics",
            claim=Claim(misuse.text),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        failed, evaluation = evidence.stage("evaluation"), evidence.evaluation
        is_decoding = evidence.arguments.get("predict_with_generate") is False  # then texts are meant
        if evaluation is None or failed is None or failed.failure is None or is_decoding:
            return
        if evaluation.metric_function_called and failed.failure.location is not None:
            yield self.finding(
                failed.failure.location,
                "the predictions are a tuple, but this line treats them as logits",
                help="select the logits: `predictions[0]`",
                subject="compute_metrics",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        evaluation, stage = evidence.evaluation, evidence.stage("evaluation")
        if evaluation is None or not evaluation.metric_function_called:
            return Verdict.inconclusive(evidence.not_reached("evaluation"))
        if not evaluation.predictions_are_tuple:
            return Verdict.refuted(f"the predictions are one array of shape {list(evaluation.predictions_shape)}")
        if stage is None or stage.failure is None:
            return Verdict.refuted(
                f"the metric function accepts the tuple and returned {len(evaluation.metrics)} values"
            )
        return Verdict.confirmed(
            f"predictions of type {evaluation.predictions} raise {stage.failure.type} after 2 batches"
        )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        name = finding.claim.name if finding.claim else ""
        if not name:
            return None
        if name.isidentifier():
            statement = f"{name} = {name}[0] if isinstance({name}, tuple) else {name}"
            return fixes.Fix.of(
                "select the logits of the tuple", fixes.InsertBefore(finding.location, statement), safe=True
            )
        if all(letter.isalnum() or letter in "_." for letter in name):
            return fixes.Fix.of(
                "select the logits of the tuple", fixes.Replace(finding.location, f"{name}[0]"), safe=False
            )
        return None


def _should_be_text(pipeline: Pipeline, misuse: Misuse, model: Model) -> bool:
    """Whether generated text was expected, which `missing-predict-with-generate` reports."""
    return misuse.use == "where" and any(
        run.model is model and trainer_methods.generates_nothing(run) for run in pipeline.runs
    )


def _model_of(misuse: Misuse) -> Model | None:
    """The model whose outputs a tuple contains."""
    if not isinstance(misuse.value, Sequence) or not misuse.value.items:
        return None
    first = misuse.value.items[0]
    return first.model if isinstance(first, Tensor) and isinstance(first.model, Model) else None
