"""Early stopping is requested, but no metric is named to compare.

`EarlyStoppingCallback` compares `metric_for_best_model`, which has a default only with `load_best_model_at_end=True`.
Without it, `train()` raises an AssertionError before the first step.

## Bad

    args = TrainingArguments("out", eval_strategy="epoch")
    trainer = Trainer(
        model,
        args,
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        callbacks=[transformers.EarlyStoppingCallback()],  # <- early-stopping-without-metric
    )

## Good

    args = TrainingArguments("out", eval_strategy="epoch", save_strategy="epoch", load_best_model_at_end=True)
    trainer = Trainer(
        model,
        args,
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        callbacks=[transformers.EarlyStoppingCallback()],
    )

## When it is fine

The metric may be named without loading the best model:

    args = TrainingArguments("out", eval_strategy="epoch", metric_for_best_model="loss", greater_is_better=False)
    trainer = Trainer(
        model,
        args,
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        callbacks=[transformers.EarlyStoppingCallback()],
    )

## Fix

None: whether to keep the best model, and by which metric, is yours to choose.

## References

Transformers documentation, `EarlyStoppingCallback`; the fix in `seyonechithrananda/bert-loves-chemistry`, commit
74814d00e383.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.pipeline.values.python import LibraryObject, Sequence, Value, is_missing, literal
from lintrain.pipeline.values.training import TrainerRun
from lintrain.rule import Evidence, Finding, Level, Pipeline, Rule, Verdict

CALLBACK = "EarlyStoppingCallback"


class EarlyStoppingWithoutMetric(Rule):
    level = Level.ERROR
    keywords = "EarlyStoppingCallback"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for run in pipeline.runs:
            callbacks = run.arguments.get("callbacks")
            if callbacks is not None and _stops_early(callbacks.value) and _lacks_metric(run):
                yield self.finding(
                    callbacks.keyword or callbacks.location,
                    f"`{CALLBACK}` needs `metric_for_best_model`, which is not set",
                    help="set `load_best_model_at_end=True`, or `metric_for_best_model`",
                )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        if evidence.framework == "transformers" and "stopping" in evidence.locations:
            yield self.finding(
                evidence.locations["stopping"],
                f"`{CALLBACK}` needs `metric_for_best_model`, which is not set",
                help="set `load_best_model_at_end=True`, or `metric_for_best_model`",
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        if "stopping" not in evidence.locations or "metric_for_best_model" not in evidence.arguments:
            return Verdict.inconclusive("0 such callbacks were seen at a Trainer")
        metric = evidence.arguments["metric_for_best_model"]
        if metric is None:
            return Verdict.confirmed("the metric that it compares is None when training starts", metric=metric)
        return Verdict.refuted(f"it compares `{metric}`", metric=metric)


def _stops_early(callbacks: Value) -> bool:
    items = callbacks.items if isinstance(callbacks, Sequence) else []
    return any(isinstance(item, LibraryObject) and item.path.endswith(CALLBACK) for item in items)


def _lacks_metric(run: TrainerRun) -> bool:
    """Whether the arguments are known, and neither name a metric nor ask for the best model."""
    settings = run.settings
    if settings is None or not settings.is_complete or not is_missing(settings.value("metric_for_best_model")):
        return False
    best = settings.value("load_best_model_at_end")
    return is_missing(best) or literal(best) is False
