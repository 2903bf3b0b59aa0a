"""A class is chosen among the outputs of a head that has only one.

The largest of one number is always the first, so every prediction is class 0, whatever the model has learned. The score
stays where it was before the training, or looks good where class 0 is common.

## Bad

    scorer = AutoModelForSequenceClassification.from_pretrained(checkpoint, num_labels=1)
    scored = tokenized.map(lambda row: {"labels": float(row["label"] == 0)}, remove_columns=["label"])

    def judge(prediction):
        classes = np.argmax(prediction.predictions, axis=-1)  # <- argmax-on-scores
        return {"accuracy": accuracy_score(prediction.label_ids.astype(int).ravel(), classes)}

    trainer = Trainer(
        scorer,
        TrainingArguments("out", eval_strategy="epoch"),
        train_dataset=scored["train"],
        eval_dataset=scored["validation_matched"],
        data_collator=collator,
        compute_metrics=judge,
    )

## Good

    scorer = AutoModelForSequenceClassification.from_pretrained(checkpoint, num_labels=2)

    def judge(prediction):
        classes = np.argmax(prediction.predictions, axis=-1)
        return {"accuracy": accuracy_score(prediction.label_ids, classes)}

    paired = tokenized.map(lambda row: {"labels": int(row["label"] == 0)}, remove_columns=["label"])
    trainer = Trainer(
        scorer,
        TrainingArguments("out", eval_strategy="epoch"),
        train_dataset=paired["train"],
        eval_dataset=paired["validation_matched"],
        data_collator=collator,
        compute_metrics=judge,
    )

## When it is fine

One output may be compared with a threshold:

    scorer = AutoModelForSequenceClassification.from_pretrained(checkpoint, num_labels=1)
    scored = tokenized.map(lambda row: {"labels": float(row["label"] == 0)}, remove_columns=["label"])

    def judge(prediction):
        classes = prediction.predictions.ravel() > 0.5
        return {"accuracy": accuracy_score(prediction.label_ids.astype(int).ravel(), classes)}

    trainer = Trainer(
        scorer,
        TrainingArguments("out", eval_strategy="epoch"),
        train_dataset=scored["train"],
        eval_dataset=scored["validation_matched"],
        data_collator=collator,
        compute_metrics=judge,
    )

## Fix

None: a threshold and one output for each class are both reasonable.

## References

NumPy documentation, `numpy.argmax`; transformers documentation, `PreTrainedConfig.num_labels`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain import (
    Evidence,
    Finding,
    Level,
    Model,
    Pipeline,
    Place,
    Reason,
    Rule,
    Tensor,
    Verdict,
    confirmed,
    refuted,
    unsettled,
)


class ArgmaxOnScores(Rule):
    level = Level.ERROR

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        seen = set[Place]()
        for misuse in pipeline.misuses:
            model = misuse.value.model if isinstance(misuse.value, Tensor) else None
            if misuse.use != "argmax of one" or not isinstance(model, Model) or misuse.place in seen:
                continue
            seen.add(misuse.place)
            yield self.finding(
                misuse.place,
                "this chooses among 1 output, so that every prediction is class 0",
                because=[Reason(model.origin, "its head has 1 output", "model")] if model.origin else [],
                help="compare the output with a threshold, or give the head one output for each class",
                subject="compute_metrics",
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        evaluation = evidence.evaluation
        is_seen = evaluation is not None and (evaluation.metric_function_called or evaluation.is_followed)
        if evaluation is None or not is_seen or not evaluation.predictions_shape:
            return unsettled(evidence.not_reached("evaluation"))
        *_, outputs = evaluation.predictions_shape
        said = f"the predictions of {evaluation.rows} rows have {outputs} outputs each"
        return confirmed(said, outputs=outputs) if outputs == 1 else refuted(said, outputs=outputs)
