"""The metric that tells the best checkpoint is none of those that the evaluation gives.

After each evaluation the Trainer looks this metric up among the results. Where it is missing, the run ends there with
an error, after the first epoch or some hundred steps of training.

## Bad

    args = TrainingArguments("out", eval_strategy="epoch", metric_for_best_model="f1")  # <- missing-best-metric
    trainer = Trainer(
        model,
        args,
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        compute_metrics=compute_metrics,
    )

## Good

    args = TrainingArguments("out", eval_strategy="epoch", metric_for_best_model="accuracy")
    trainer = Trainer(
        model,
        args,
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        compute_metrics=compute_metrics,
    )

## When it is fine

The loss is always there, and the names may be written with the prefix that the Trainer gives them:

    args = TrainingArguments("out", eval_strategy="epoch", metric_for_best_model="eval_loss")
    trainer = Trainer(
        model,
        args,
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        compute_metrics=compute_metrics,
    )

Several evaluation sets give each name a prefix of their own:

    args = TrainingArguments("out", eval_strategy="epoch", metric_for_best_model="mismatched_accuracy")
    trainer = Trainer(
        model,
        args,
        train_dataset=tokenized["train"],
        eval_dataset={"matched": tokenized["validation_matched"], "mismatched": tokenized["validation_mismatched"]},
        data_collator=collator,
        compute_metrics=compute_metrics,
    )

What a function returns is often not to be seen:

    from somewhere import measure

    args = TrainingArguments("out", eval_strategy="epoch", metric_for_best_model="f1")
    trainer = Trainer(
        model,
        args,
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        compute_metrics=lambda prediction: measure(prediction),
    )

## Fix

Asks first: the nearest key is a guess at what was meant.

## References

transformers#19957, transformers#29801; `Trainer._determine_best_metric` of 4.47 to 5.23.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import evaluation_schedule
from lintrain.pipeline.values.python import Absent, Mapping, options_of
from lintrain.pipeline.values.training import TrainerRun, TrainingArguments
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, fixes

ALWAYS = frozenset(
    {"loss", "runtime", "samples_per_second", "steps_per_second", "model_preparation_time", "jit_compilation_time"}
)
ADDS_METRICS = frozenset({"evaluate", "evaluation_loop", "prediction_loop", "log", "_maybe_log_save_evaluate"})
RAISED = ("which is not found in the evaluation metrics",)


class MissingBestMetric(Rule):
    level = Level.ERROR
    keywords = "Trainer"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for run in pipeline.runs:
            settings = run.settings
            if settings is None or not run.is_plain or run.overrides & ADDS_METRICS:
                continue
            name, strategy = (
                evaluation_schedule.best_metric(settings),
                evaluation_schedule.evaluation_strategy(settings),
            )
            if name is None or strategy is None or strategy.value == "no" or not _is_called_so(settings):
                continue
            given = _names_given(run)
            if given is not None and name not in given | ALWAYS and not _may_be_prefixed(run, name, given):
                yield self._report(run, settings, name, given)

    def _report(self, run: TrainerRun, settings: TrainingArguments, name: str, given: frozenset[str]) -> Finding:
        names = sorted(given)
        listed = ", ".join(f"`{each}`" for each in [*names[:3], *(["…"] if len(names) > 3 else [])])
        from difflib import get_close_matches

        near = get_close_matches(name, names, 1, 0.6) or (names if len(names) == 1 else ["loss"] if not names else [])
        function = run.arguments.get("compute_metrics")
        note = f"gives {listed}" if names else "gives the loss alone"
        return self.finding(
            settings.locations["metric_for_best_model"],
            f"the best checkpoint is told by `{name}`, which the evaluation does not give",
            related=[Related(function.location if function else run.construction, note, "metrics")],
            help=f"name what `compute_metrics` returns ({listed}), or return `{name}` as well"
            if names
            else f"pass a `compute_metrics` that returns `{name}`",
            subject="metric_for_best_model",
            facts={"metric": name, "nearest": near[0] if near else None},
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        evaluation, name = evidence.evaluation, evidence.arguments.get("metric_for_best_model")
        if evaluation is None or evaluation.is_followed or not evidence.passed("evaluation"):
            return Verdict.inconclusive(evidence.not_reached("evaluation"))
        if not isinstance(name, str):
            return Verdict.refuted("the arguments name 0 metrics for the best checkpoint")
        given = {each.removeprefix("eval_") for each in evaluation.metrics}
        said = f"the evaluation of {evaluation.rows} rows gives {', '.join(sorted(given)) or 'the loss alone'}"
        if name.removeprefix("eval_") in given | ALWAYS:
            return Verdict.refuted(f"{said}, and `{name}` is among that or always there", metrics=[*sorted(given)])
        return Verdict.confirmed(f"{said}, and no `{name}`", metrics=[*sorted(given)])

    def fix(self, finding: Finding) -> fixes.Fix | None:
        nearest = finding.facts.get("nearest")
        if not isinstance(nearest, str):
            return None
        code = f'metric_for_best_model="{nearest}"'
        return fixes.Fix.of(f"take `{nearest}`", fixes.Replace(finding.location, code), safe=False)


def _is_called_so(settings: TrainingArguments) -> bool:
    return "metric_for_best_model" in settings.locations


def _names_given(run: TrainerRun) -> frozenset[str] | None:
    """The names that the metric function returns on every way through it, together; None where one is not known."""
    if isinstance(run.metrics, Absent):
        return frozenset() if run.is_complete else None
    names = set[str]()
    for option in options_of(run.metrics):
        if not isinstance(option, Mapping) or not option.is_complete:
            return None
        names |= {str(key) for key in option.entries}
    return frozenset(name.removeprefix("eval_") for name in names)


def _may_be_prefixed(run: TrainerRun, name: str, given: frozenset[str]) -> bool:
    """Whether the data is no single set, or not known, and the name ends like one that is given."""
    return run.dataset("eval_dataset") is None and any(name.endswith(each) for each in given | ALWAYS)
