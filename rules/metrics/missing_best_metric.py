"""`metric_for_best_model`, or a script that reads the results, names a metric that the evaluation does not return.

After each evaluation the Trainer looks up `metric_for_best_model` in the results. If it is missing, the run ends there
with an error, after the first epoch or a few hundred steps of training.

With several evaluation sets in a dictionary, there is not even a loss without the name of its set, which
`load_best_model_at_end=True` asks for.

What `evaluate` and `predict` return has names with a prefix, `eval_` and `test_` by default. A script that reads them
under other names ends with a `KeyError` after the training, often before the model is saved.

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

The loss is always available, and a name may carry the prefix that the Trainer adds:

    args = TrainingArguments("out", eval_strategy="epoch", metric_for_best_model="eval_loss")
    trainer = Trainer(
        model,
        args,
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        compute_metrics=compute_metrics,
    )

With several evaluation sets, each metric carries the name of its set as a prefix:

    args = TrainingArguments("out", eval_strategy="epoch", metric_for_best_model="mismatched_accuracy")
    trainer = Trainer(
        model,
        args,
        train_dataset=tokenized["train"],
        eval_dataset={"matched": tokenized["validation_matched"], "mismatched": tokenized["validation_mismatched"]},
        data_collator=collator,
        compute_metrics=compute_metrics,
    )

What a function returns is often unknown:

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

Asks first: the closest name is only a guess.

## References

transformers#19957, transformers#29801; `Trainer._determine_best_metric` of 4.47 to 5.23.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import evaluation_keys, evaluation_schedule
from lintrain.pipeline.values.python import Absent, Mapping, options_of
from lintrain.pipeline.values.training import TrainerRun, TrainingArguments
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, dataclass, fixes

ALWAYS = frozenset(
    {"loss", "runtime", "samples_per_second", "steps_per_second", "model_preparation_time", "jit_compilation_time"}
)
ASKS_FOR_ONE = ("metric_for_best_model", "load_best_model_at_end")
"""The settings that ask for a metric; with the second alone, it is the loss."""
KEY = "key"
"""The subject of a finding about a name under which the script reads a result."""
ADDS_METRICS = frozenset({"evaluate", "evaluation_loop", "prediction_loop", "log", "_maybe_log_save_evaluate"})


@dataclass(frozen=True, slots=True)
class Claim:
    """The metric that is looked up, and the closest name that the evaluation returns, if any."""

    metric: str
    nearest: str | None


class MissingBestMetric(Rule[Claim]):
    level = Level.ERROR
    judges_configurations = True
    keywords = "Trainer"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        yield from map(self._report_key, evaluation_keys.missing_keys(pipeline))
        for run in pipeline.runs:
            settings = run.settings
            if settings is None or not run.is_plain or run.overrides & ADDS_METRICS:
                continue
            name, strategy = (
                evaluation_schedule.best_metric(settings),
                evaluation_schedule.evaluation_strategy(settings),
            )
            if evaluation_schedule.is_left_out(settings, ASKS_FOR_ONE[0]) and evaluation_schedule.keeps_the_best(
                settings
            ):
                name = "loss"
            if name is None or strategy is None or strategy.value == "no":
                continue
            given = _names_given(run)
            is_missed = given is not None and name not in given | ALWAYS and not _may_be_prefixed(run, name, given)
            if given is not None and is_missed and _is_written(settings):
                yield self._report(run, settings, name, given)
                continue
            sets = _sets_of(run)
            if sets and not any(name.startswith(f"{each}_") for each in sets):
                yield from self._of_sets(run, settings, name, sets)

    def _report_key(self, found: evaluation_keys.MissingKey) -> Finding[Claim]:
        return self.finding(
            found.location,
            f"the metrics of `{found.method}` begin with `{found.prefix}_`, so there is no such name",
            related=[Related(found.call, "returned here", "metrics")],
            why="The results do not contain the name, so the script ends with a `KeyError` here, after the evaluation.",
            help=f'read `"{found.prefix}_…"`, or pass `metric_key_prefix`',
            subject=KEY,
        )

    def _of_sets(
        self, run: TrainerRun, settings: TrainingArguments, name: str, sets: list[str]
    ) -> Iterator[Finding[Claim]]:
        """With several evaluation sets there is no metric without the name of one, not even the loss."""
        location = next((settings.locations[each] for each in ASKS_FOR_ONE if each in settings.locations), None)
        given = run.arguments.get("eval_dataset")
        if location is None or given is None:
            return
        yield self.finding(
            location,
            f"the best checkpoint is chosen by `{name}`, but each set has its own metrics",
            related=[Related(given.location, f"evaluates on `{sets[0]}` and others", "sets")],
            why="With several sets, each name in the results begins with that of its set, even the loss. The Trainer"
            " does not find the metric, and the run ends with an error after the first evaluation.",
            help=f'name the set as well: `metric_for_best_model="{sets[0]}_{name}"`',
            subject="eval_dataset",
            claim=Claim(name, None),  # which set is to decide is not certain
        )

    def _report(self, run: TrainerRun, settings: TrainingArguments, name: str, given: frozenset[str]) -> Finding[Claim]:
        names = sorted(given)
        listed = ", ".join(f"`{each}`" for each in [*names[:3], *(["…"] if len(names) > 3 else [])])
        from difflib import get_close_matches

        near = get_close_matches(name, names, 1, 0.6) or (names if len(names) == 1 else ["loss"] if not names else [])
        function = run.arguments.get("compute_metrics")
        note = f"returns {listed}" if names else "returns only the loss"
        return self.finding(
            settings.locations["metric_for_best_model"],
            f'`metric_for_best_model="{name}"`, but evaluation never returns `{name}`',
            related=[Related(function.location if function else run.construction, note, "metrics")],
            help=f"use a metric that `compute_metrics` returns ({listed}), or return `{name}` as well"
            if names
            else f"pass a `compute_metrics` that returns `{name}`",
            subject="metric_for_best_model",
            claim=Claim(name, near[0] if near else None),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        evaluation, name = evidence.evaluation, evidence.arguments.get("metric_for_best_model")
        # With several evaluation sets, each metric carries the name of its set.
        is_of_one = all(split.key is None for split in evidence.splits) and not ADDS_METRICS & set(evidence.overrides)
        # SetFit makes the arguments of the trainer inside of it, whose evaluations are not those of the head.
        is_of_one &= evidence.locations.get("arguments") not in (None, evidence.construction)
        if evaluation is not None and evaluation.wanted and isinstance(name, str) and is_of_one:
            yield self.finding(
                evidence.location_of("arguments"),
                f'`metric_for_best_model="{name}"`, but evaluation never returns `{name}`',
                help=f"use a metric that `compute_metrics` returns, or return `{name}` as well",
                subject="metric_for_best_model",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        if finding.subject == KEY:
            return Verdict.inconclusive("what the script reads after the training is not measured")
        if finding.subject == "eval_dataset" and finding.claim is not None:
            return _verdict_of_sets(finding.claim.metric, evidence)
        evaluation, name = evidence.evaluation, evidence.arguments.get("metric_for_best_model")
        if evaluation is None or evaluation.is_followed or not evidence.passed("evaluation"):
            return Verdict.inconclusive(evidence.not_reached("evaluation"))
        if not isinstance(name, str):
            return Verdict.refuted("`metric_for_best_model` is not set")
        # Trainers of other libraries add metrics of their own to those of the function.
        given = {each.removeprefix("eval_") for each in (*evaluation.metrics, *evaluation.given)} - ALWAYS
        text = f"the evaluation of {evaluation.rows} rows returned {', '.join(sorted(given)) or 'only the loss'}"
        if name.removeprefix("eval_") in given | ALWAYS:
            return Verdict.refuted(f"{text}; `{name}` is available", metrics=[*sorted(given)])
        return Verdict.confirmed(f"{text}, but no `{name}`", metrics=[*sorted(given)])

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        nearest = finding.claim.nearest if finding.claim else None
        if nearest is None:
            return None
        edit = fixes.SetArgument(finding.location, "metric_for_best_model", f'"{nearest}"')
        return fixes.Fix.of(f"use `{nearest}`", edit, safe=False)


def _verdict_of_sets(name: str, evidence: Evidence) -> Verdict:
    """Whether the evaluation of one of several sets returned the metric under the name of the set alone."""
    evaluation = evidence.evaluation
    if evaluation is None or not evidence.passed("evaluation"):
        return Verdict.inconclusive(evidence.not_reached("evaluation"))
    returned = {each.removeprefix("eval_") for each in evaluation.metrics}
    named = sorted(each for each in returned if each.endswith(f"_{name}"))
    text = f"the evaluation of {evaluation.rows} rows returned {named[0] if named else f'no `{name}`'}"
    if name in returned or not named:
        return Verdict.refuted(f"{text}; `{name}` is available") if name in returned else Verdict.inconclusive(text)
    return Verdict.confirmed(f"{text}, and no `{name}`", metrics=[*named])


def _sets_of(run: TrainerRun) -> list[str]:
    """The names of the evaluation sets, if a dictionary has several of them; empty if that is not certain."""
    given = run.value("eval_dataset")
    if (
        not isinstance(given, Mapping)
        or not given.is_complete
        or not all(isinstance(each, str) for each in given.entries)
    ):
        return []
    return [str(each) for each in given.entries]


def _is_written(settings: TrainingArguments) -> bool:
    return "metric_for_best_model" in settings.locations


def _names_given(run: TrainerRun) -> frozenset[str] | None:
    """The names that the metric function returns, over all of its paths; None if one is unknown."""
    if isinstance(run.metrics, Absent):
        return frozenset() if run.is_complete else None
    names = set[str]()
    for option in options_of(run.metrics):
        if not isinstance(option, Mapping) or not option.is_complete:
            return None
        names |= {str(key) for key in option.entries}
    return frozenset(name.removeprefix("eval_") for name in names)


def _may_be_prefixed(run: TrainerRun, name: str, given: frozenset[str]) -> bool:
    """Whether the data may be several sets, and the name ends like a returned one."""
    return run.dataset("eval_dataset") is None and any(name.endswith(each) for each in given | ALWAYS)
