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

A rating is rounded down to nothing by it:

    scorer = AutoModelForSequenceClassification.from_pretrained(checkpoint, num_labels=1)
    with torch.no_grad():
        ratings = scorer(batch["input_ids"]).logits.argmax(dim=-1)  # <- argmax-on-scores
    errors = ratings - batch["labels"]

and a label that may be there or not is never found:

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

Ratings are taken as they are:

    scorer = AutoModelForSequenceClassification.from_pretrained(checkpoint, num_labels=1)
    with torch.no_grad():
        ratings = scorer(batch["input_ids"]).logits.squeeze(-1)
    errors = ratings - batch["labels"]

and a label is there where its logit is above 0:

    tagger = AutoModelForSequenceClassification.from_pretrained(
        checkpoint, num_labels=1, problem_type="multi_label_classification"
    )
    with torch.no_grad():
        found = (tagger(batch["input_ids"]).logits.squeeze(-1) > 0).int()

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

Asks first: other numbers come out, and one output for each class may be what was meant. Offered where the labels are
certainly ratings (an error is computed of them) or tags (`problem_type="multi_label_classification"`). The shape stays.

## References

NumPy documentation, `numpy.argmax`; transformers documentation, `PreTrainedConfig.num_labels`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.pipeline.values.model import Model, Role, Tensor
from lintrain.pipeline.values.python import Value, is_missing, text_of
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, fixes

OF_RATINGS = frozenset(
    {"mae", "mean_absolute_error", "mean_squared_error", "mse", "pearsonr", "r2_score", "r_squared", "spearmanr"}
)
"""Metrics that compare numbers with numbers."""


class ArgmaxOnScores(Rule):
    level = Level.ERROR
    keywords = "argmax|max("

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        seen = set[Location]()
        for misuse in pipeline.misuses:
            model = misuse.value.model if isinstance(misuse.value, Tensor) else None
            if misuse.use != "argmax of one" or not isinstance(model, Model) or misuse.location in seen:
                continue
            seen.add(misuse.location)
            yield self.finding(
                misuse.location,
                "this chooses among 1 output, so that every prediction is class 0",
                related=[Related(model.origin, "its head has 1 output", "model")] if model.origin else [],
                help="compare the output with a threshold, or give the head one output for each class",
                subject="compute_metrics",
                facts={"code": _cure(pipeline, misuse.location, misuse.value, model)},
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        evaluation = evidence.evaluation
        is_seen = evaluation is not None and (evaluation.metric_function_called or evaluation.is_followed)
        if evaluation is None or not is_seen or not evaluation.predictions_shape:
            return Verdict.inconclusive(evidence.not_reached("evaluation"))
        *_, outputs = evaluation.predictions_shape
        said = f"the predictions of {evaluation.rows} rows have {outputs} outputs each"
        return Verdict.confirmed(said, outputs=outputs) if outputs == 1 else Verdict.refuted(said, outputs=outputs)

    def fix(self, finding: Finding) -> fixes.Fix | None:
        code = finding.facts.get("code")
        if not isinstance(code, str):
            return None
        return fixes.Fix.of(f"take the output itself: `{code}`", fixes.Replace(finding.location, code), safe=False)


def _cure(pipeline: Pipeline, location: Location, chosen: Value, model: Model) -> str | None:
    """The code to take ratings as they are, or tags by a threshold, in one shape; None where neither is certain."""
    call = _call_at(pipeline, location)
    if call is None or not isinstance(chosen, Tensor):
        return None
    problem, scores = _problem_of(model), _scores_in(call)
    if problem in {None, "regression"} and _is_rating(pipeline, location):
        return f"{scores}.squeeze(-1)"
    cast = _cast(call)
    if problem != "multi_label_classification" or cast is None:
        return None
    return f"({scores}.squeeze(-1) > {'0' if chosen.role is Role.LOGITS else '0.5'}).{cast}"


def _call_at(pipeline: Pipeline, location: Location) -> ast.Call | None:
    """The call at a place that chooses along the last axis and does nothing else."""
    source = pipeline.source_of(location)
    call = next((node for node in source.nodes_of(ast.Call) if source.location(node) == location), None)
    if call is None or not isinstance(call.func, ast.Attribute):
        return None
    names = {keyword.arg for keyword in call.keywords}
    given = len(call.args) + len(names) + (not _is_function(call))
    return call if given == 2 and names <= {"axis", "dim"} else None


def _is_function(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) in {"np", "numpy", "torch"}


def _scores_in(call: ast.Call) -> str:
    """The code of what the call chooses among, as something that a method can be called on."""
    assert isinstance(call.func, ast.Attribute)
    scores = call.args[0] if _is_function(call) else call.func.value
    is_bound = isinstance(scores, ast.Name | ast.Attribute | ast.Subscript | ast.Call)
    return ast.unparse(scores) if is_bound else f"({ast.unparse(scores)})"


def _cast(call: ast.Call) -> str | None:
    """What turns answers into the numbers 0 and 1 in the library of the call; None where it may be either."""
    assert isinstance(call.func, ast.Attribute)
    owner = ast.unparse(call.func.value)
    if owner == "torch" or any(keyword.arg == "dim" for keyword in call.keywords):
        return "int()"
    return "astype(int)" if owner in {"np", "numpy"} or owner.endswith(".predictions") else None


def _problem_of(model: Model) -> str | None:
    """The `problem_type` that the script gives a model; None where it gives none."""
    config = model.config
    given = model.arguments.get("problem_type")
    if given is None and config is not None:
        given = config.attributes.get("problem_type", config.arguments.get("problem_type"))
    if given is None or is_missing(given):
        return None
    return text_of(given) or "unknown"


def _is_rating(pipeline: Pipeline, location: Location) -> bool:
    """Whether an error is computed of the chosen numbers: by a metric of ratings, or as a difference."""
    metrics = [call for call in pipeline.metric_calls if call.predictions and call.predictions.value.origin == location]
    differences = [each for each in pipeline.arithmetic.values() if each.operator == "Sub"]
    is_subtracted = any(location in {each.left.origin, each.right.origin} for each in differences)
    return is_subtracted or any(call.metric.name in OF_RATINGS for call in metrics)
