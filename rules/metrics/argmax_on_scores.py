"""`argmax` is applied to the output of a head that has only one output.

The argmax of a single number is always 0, so every prediction is class 0, whatever the model has learned. The score
stays where it was before training, or looks good if class 0 is common.

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

A rating always becomes 0:

    scorer = AutoModelForSequenceClassification.from_pretrained(checkpoint, num_labels=1)
    with torch.no_grad():
        ratings = scorer(batch["input_ids"]).logits.argmax(dim=-1)  # <- argmax-on-scores
    errors = ratings - batch["labels"]

and a multi-label head never predicts its label:

    tagger = AutoModelForSequenceClassification.from_pretrained(
        checkpoint, num_labels=1, problem_type="multi_label_classification"
    )
    with torch.no_grad():
        found = tagger(batch["input_ids"]).logits.argmax(dim=-1)  # <- argmax-on-scores

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

Ratings are used as they are:

    scorer = AutoModelForSequenceClassification.from_pretrained(checkpoint, num_labels=1)
    with torch.no_grad():
        ratings = scorer(batch["input_ids"]).logits.squeeze(-1)
    errors = ratings - batch["labels"]

and a label is predicted if its logit is above 0:

    tagger = AutoModelForSequenceClassification.from_pretrained(
        checkpoint, num_labels=1, problem_type="multi_label_classification"
    )
    with torch.no_grad():
        found = (tagger(batch["input_ids"]).logits.squeeze(-1) > 0).int()

## When it is fine

A single output can be compared with a threshold:

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

Asks first: the results change, and one output per class may be intended. Offered if the labels are certainly ratings
(an error is computed from them) or tags (`problem_type="multi_label_classification"`). The shape stays the same.

## References

NumPy documentation, `numpy.argmax`; transformers documentation, `PreTrainedConfig.num_labels`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import expressions
from lintrain.pipeline.values.model import Layer, Model, Network, Role, Tensor
from lintrain.pipeline.values.python import Value, is_missing, text_of
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Rule,
    Verdict,
    dataclass,
    fixes,
    one_per_location,
)

OF_RATINGS = frozenset(
    {"mae", "mean_absolute_error", "mean_squared_error", "mse", "pearsonr", "r2_score", "r_squared", "spearmanr"}
)
"""Metrics that compare predicted numbers with true numbers."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The code that replaces the argmax; None if no replacement is certain."""

    code: str | None


@dataclass(frozen=True, slots=True)
class Argmax:
    """The scores that an argmax is taken of, the code of what its function belongs to, and whether it takes `dim`."""

    scores: expressions.Expression
    owner: str
    takes_dim: bool


class ArgmaxOnScores(Rule[Claim]):
    level = Level.ERROR
    keywords = "argmax|max("

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        seen = set[Location]()
        for misuse in pipeline.misuses:
            model = misuse.value.model if isinstance(misuse.value, Tensor) else None
            if misuse.use != "argmax of one" or misuse.location in seen:
                continue
            if isinstance(model, Network) and model.last is not None:
                seen.add(misuse.location)
                yield self._of_network(misuse.location, model.last)
            if not isinstance(model, Model):
                continue
            seen.add(misuse.location)
            yield self.finding(
                misuse.location,
                "the head has 1 output, so this always predicts class 0",
                related=[Related(model.origin, "the head has 1 output", "model")] if model.origin else [],
                help="compare the output with a threshold, or give the head one output per class",
                subject="compute_metrics",
                claim=Claim(_replacement(pipeline, misuse.location, misuse.value, model)),
            )

        yield from one_per_location(
            self.finding(
                misuse.location,
                "each row may have several classes, and `argmax` keeps one",
                help="compare each score with a threshold: `logits > 0`",
                subject="compute_metrics",
                level=Level.WARNING,
                claim=Claim(None),
            )
            for misuse in pipeline.misuses
            if misuse.use == "argmax of tags"
        )

    def _of_network(self, location: Location, last: Layer) -> Finding[Claim]:
        return self.finding(
            location,
            "the network has 1 output, so this always predicts class 0",
            related=[Related(last.origin, "this layer has 1 output", "model")] if last.origin else [],
            help="compare the output with a threshold: `(predictions > 0.5).astype(int)`",
            claim=Claim(None),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        evaluation = evidence.evaluation
        if evaluation is not None and evaluation.change_by_opposite == 0:
            yield self.finding(
                evaluation.chosen_at or evaluation.returned_at or evidence.location,
                "the metric is the same for opposite predictions of the one output",
                help="compare the output with a threshold, or give the head one output per class",
                subject="compute_metrics",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        evaluation = evidence.evaluation
        is_seen = evaluation is not None and (evaluation.metric_function_called or evaluation.is_followed)
        if evaluation is None or not is_seen or not evaluation.predictions_shape:
            return Verdict.inconclusive(evidence.not_reached("evaluation"))
        *_, outputs = evaluation.predictions_shape
        if outputs == 1:
            return Verdict.confirmed(f"1 output per row in the predictions for {evaluation.rows} rows", outputs=1)
        text = f"{outputs} outputs per row in the predictions for {evaluation.rows} rows"
        return Verdict.refuted(text, outputs=outputs)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        if claim is None or claim.code is None:
            return None
        edit = fixes.Replace(finding.location, claim.code)
        return fixes.Fix.of(f"use the output itself: `{claim.code}`", edit, safe=False)


def _replacement(pipeline: Pipeline, location: Location, chosen: Value, model: Model) -> str | None:
    """The code that keeps ratings, or compares tags with a threshold, in the same shape; None if neither is certain."""
    call = _argmax_at(pipeline, location)
    if call is None or not isinstance(chosen, Tensor):
        return None
    problem, scores = _problem_of(model), _scores_in(call)
    if problem in {None, "regression"} and _is_rating(pipeline, location):
        return f"{scores}.squeeze(-1)"
    cast = _cast(call)
    if problem != "multi_label_classification" or cast is None:
        return None
    return f"({scores}.squeeze(-1) > {'0' if chosen.role is Role.LOGITS else '0.5'}).{cast}"


def _argmax_at(pipeline: Pipeline, location: Location) -> Argmax | None:
    """The call at a location that takes the argmax along the last axis and does nothing else."""
    call = expressions.call_at(pipeline, location)
    owner = call.called_on if call is not None else None
    if call is None or owner is None:
        return None
    is_function = owner.code in {"np", "numpy", "torch"}
    given = len(call.arguments) + len(call.keywords) + (not is_function)
    if given != 2 or not call.keywords.keys() <= {"axis", "dim"}:
        return None
    return Argmax(call.arguments[0] if is_function else owner, owner.code, "dim" in call.keywords)


def _scores_in(argmax: Argmax) -> str:
    """The code of the argmax's operand, in brackets if a method cannot be called on it."""
    scores = argmax.scores
    return scores.code if scores.kind in expressions.REFERENCES else f"({scores.code})"


def _cast(argmax: Argmax) -> str | None:
    """The method that turns booleans into 0 and 1 in the library of the call; None if the library is unknown."""
    if argmax.owner == "torch" or argmax.takes_dim:
        return "int()"
    return "astype(int)" if argmax.owner in {"np", "numpy"} or argmax.owner.endswith(".predictions") else None


def _problem_of(model: Model) -> str | None:
    """The `problem_type` that the script sets for a model; None if it sets none."""
    return None if is_missing(model.problem_type) else text_of(model.problem_type) or "unknown"


def _is_rating(pipeline: Pipeline, location: Location) -> bool:
    """Whether an error is computed from the predictions: by a regression metric, or as a difference."""
    metrics = [call for call in pipeline.metric_calls if call.predictions and call.predictions.value.origin == location]
    differences = [each for each in pipeline.arithmetic.values() if each.operator == "Sub"]
    is_subtracted = any(location in {each.left.origin, each.right.origin} for each in differences)
    return is_subtracted or any(call.metric.name in OF_RATINGS for call in metrics)
