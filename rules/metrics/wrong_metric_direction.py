"""The best checkpoint is chosen by an error measure, and the largest value counts as the best.

Only names that end in `loss` are taken for something to be made small. For every other name, an error rate or a
perplexity too, the Trainer keeps the checkpoint with the largest value, which is the worst one.

## Bad

    def judge(prediction):
        return {"mae": float(np.abs(prediction.predictions.argmax(-1) - prediction.label_ids).mean())}

    args = TrainingArguments(  # <- wrong-metric-direction
        "out", eval_strategy="epoch", save_strategy="epoch", load_best_model_at_end=True, metric_for_best_model="mae"
    )
    trainer = Trainer(
        model,
        args,
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        compute_metrics=judge,
    )

## Good

    def judge(prediction):
        return {"mae": float(np.abs(prediction.predictions.argmax(-1) - prediction.label_ids).mean())}

    args = TrainingArguments(
        "out",
        eval_strategy="epoch",
        save_strategy="epoch",
        load_best_model_at_end=True,
        metric_for_best_model="mae",
        greater_is_better=False,
    )
    trainer = Trainer(
        model,
        args,
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        compute_metrics=judge,
    )

## When it is fine

The measure may be turned round before it is returned:

    def judge(prediction):
        return {"mae": -float(np.abs(prediction.predictions.argmax(-1) - prediction.label_ids).mean())}

    args = TrainingArguments(
        "out", eval_strategy="epoch", save_strategy="epoch", load_best_model_at_end=True, metric_for_best_model="mae"
    )
    trainer = Trainer(
        model,
        args,
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        compute_metrics=judge,
    )

An argument that is set on the finished object leaves the direction open, and the smallest value is kept:

    args = TrainingArguments("out", eval_strategy="epoch", save_strategy="best")
    args.metric_for_best_model = "wer"

## Fix

Safe: keeping the checkpoint with the worst value is what nobody wants.

## References

Transformers documentation, `TrainingArguments.greater_is_better`; `TrainingArguments.__post_init__` of 4.46 to 5.23.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import evaluation_schedule, trainer_methods
from lintrain.pipeline.values.training import TrainingArguments
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, fixes

SMALL_IS_GOOD = frozenset({"cer", "error", "eval_error", "mae", "mse", "perplexity", "ppl", "rmse", "wer"})


class WrongMetricDirection(Rule):
    level = Level.ERROR
    keywords = "Arguments|Config"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for settings in pipeline.arguments:
            name = evaluation_schedule.best_metric(settings)
            if name not in SMALL_IS_GOOD or not evaluation_schedule.is_given_in_call(settings, "metric_for_best_model"):
                continue
            is_open = evaluation_schedule.is_left_out(
                settings, "greater_is_better"
            ) and evaluation_schedule.keeps_the_best(settings)
            if is_open and not _is_turned_round(pipeline, settings):
                yield self._report(settings, name)

    def _report(self, settings: TrainingArguments, name: str) -> Finding:
        location = settings.locations["metric_for_best_model"]
        return self.finding(
            settings.origin or location,
            f"the checkpoint with the largest `{name}` is kept as the best",
            related=[Related(location, "an error: smaller is better", "metric")],
            help="add `greater_is_better=False`",
            subject="metric_for_best_model",
            facts={"metric": name},
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        name = evidence.arguments.get("metric_for_best_model")
        greater = evidence.arguments.get("greater_is_better")
        if not isinstance(name, str) or not isinstance(greater, bool):
            return Verdict.inconclusive("the arguments hold 0 metrics that tell the best checkpoint")
        value = evidence.evaluation.metrics.get(name.removeprefix("eval_")) if evidence.evaluation else None
        now = f", now {value:.3g}," if value is not None else ""
        if not greater:
            return Verdict.refuted(
                f"`{name}`{now} is the better the smaller it is: `greater_is_better` is 0", greater=greater
            )
        return Verdict.confirmed(
            f"`{name}`{now} is the better the larger it is: `greater_is_better` is 1", greater=greater
        )

    def fix(self, finding: Finding) -> fixes.Fix:
        title = f"keep the smallest `{finding.facts.get('metric')}`"
        return fixes.Fix.of(title, fixes.AddArgument(finding.location, "greater_is_better", "False"), safe=True)


def _is_turned_round(pipeline: Pipeline, settings: TrainingArguments) -> bool:
    """Whether a metric function of a run with these arguments negates or inverts something."""
    runs = [run for run in pipeline.runs if run.value("args") is settings]
    functions = [trainer_methods.own_function(run.value("compute_metrics")) for run in runs]
    return any(
        _turns_round(node)
        for function in functions
        if function is not None
        for node in trainer_methods.nodes_of(function)
    )


def _turns_round(node: ast.AST) -> bool:
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return not isinstance(operand, ast.Constant)
        case ast.BinOp(left=ast.Constant(), op=ast.Sub() | ast.Div()):
            return True
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return any(isinstance(each, ast.UnaryOp) for each in (left, right))
        case _:
            return False
