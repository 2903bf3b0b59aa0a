"""The best checkpoint is to be loaded, and checkpoints are not saved when the model is judged.

A checkpoint can only be called the best if it was judged. The training arguments raise an error when they are made
unless saving and evaluating have the same strategy, and the steps of one are a multiple of those of the other.

## Bad

    args = TrainingArguments("out", eval_strategy="epoch", load_best_model_at_end=True)  # <- unmatched-save-strategy
    # raises ValueError: --load_best_model_at_end requires the save and eval strategy to match

Saving between two evaluations is no match either:

    args = TrainingArguments(
        "out",
        eval_strategy="steps",
        save_strategy="steps",
        eval_steps=100,
        save_steps=250,  # <- unmatched-save-strategy
        load_best_model_at_end=True,
    )
    # raises ValueError: --load_best_model_at_end requires the saving steps to be a round multiple

## Good

    args = TrainingArguments("out", eval_strategy="epoch", load_best_model_at_end=True, save_strategy="epoch")

Saving between two evaluations:

    args = TrainingArguments(
        "out",
        eval_strategy="steps",
        save_strategy="steps",
        eval_steps=100,
        save_steps=200,
        load_best_model_at_end=True,
    )

## When it is fine

With `save_strategy="best"` a checkpoint is saved whenever it is the best:

    args = TrainingArguments(
        "out",
        eval_strategy="epoch",
        save_strategy="best",
        load_best_model_at_end=True,
        metric_for_best_model="loss",
    )

What the user chooses is not known:

    strategy = os.environ.get("STRATEGY", "no")
    args = TrainingArguments(
        "out",
        eval_strategy=strategy,
        save_strategy=strategy,
        load_best_model_at_end=strategy != "no",
    )

## Fix

Safe: with both as they are the arguments cannot be made.

## References

Transformers documentation, `TrainingArguments.load_best_model_at_end`; `TrainingArguments.__post_init__` of 4.46 to
5.23, where the best strategy is there from 4.47 on.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import evaluation_schedule
from lintrain.pipeline.values.python import is_true, literal
from lintrain.pipeline.values.training import TrainingArguments
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, fixes

RAISED = ("--load_best_model_at_end requires",)
EVERY = 500
"""The default of `save_steps`, and of `logging_steps`, which `eval_steps` is taken from."""


class UnmatchedSaveStrategy(Rule):
    level = Level.ERROR
    keywords = "Arguments|Config"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for settings in pipeline.arguments:
            wanted = settings.locations.get("load_best_model_at_end")
            if not is_true(settings.value("load_best_model_at_end")) or wanted is None:
                continue
            evaluating, saving = (
                evaluation_schedule.evaluation_strategy(settings),
                evaluation_schedule.saving_strategy(settings),
            )
            if evaluating is None or saving is None or not _are_checked(settings, evaluating, saving):
                continue
            if evaluating.value != saving.value and saving.value != "best":
                yield self._strategies(settings, wanted, evaluating, saving)
            elif evaluating.value == saving.value == "steps":
                yield from self._steps(settings, wanted)

    def _strategies(
        self,
        settings: TrainingArguments,
        wanted: Location,
        evaluating: evaluation_schedule.Strategy,
        saving: evaluation_schedule.Strategy,
    ) -> Finding:
        reasons = [Related(wanted, "the best checkpoint is wanted", "best")]
        reasons += saving.reason("when it saves") + evaluating.reason("when it evaluates")
        if evaluating.value == "no":
            cure = 'evaluate while training: `eval_strategy="epoch", save_strategy="epoch"`'
        else:
            cure = f'save when the model is judged: `save_strategy="{evaluating.value}"`'
        return self.finding(
            saving.location or settings.origin or wanted,
            f'checkpoints are saved by "{saving.value}" and judged by "{evaluating.value}"',
            related=reasons,
            help=cure,
            subject="save_strategy",
            facts={"evaluation": evaluating.value, "is_default": saving.location is None},
        )

    def _steps(self, settings: TrainingArguments, wanted: Location) -> Iterator[Finding]:
        logging = _number(settings, "logging_steps", EVERY)
        saving, judging = _number(settings, "save_steps", EVERY), _number(settings, "eval_steps", logging)
        if saving is None or judging is None or saving % judging == 0:
            return
        location = settings.locations.get("save_steps") or settings.locations.get("eval_steps") or wanted
        yield self.finding(
            location,
            f"every {saving} steps a checkpoint is saved, every {judging} the model is judged",
            related=[Related(wanted, "the best checkpoint is wanted", "best")],
            help=f"make `save_steps` a multiple of {judging}",
            subject="save_steps",
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        stage = evidence.failed_with(*RAISED)
        if stage is not None and stage.failure is not None:
            return Verdict.confirmed(f"{stage.failure.type} when the arguments are made: 0 steps of training")
        if evidence.passed("construction"):
            return Verdict.refuted("the arguments were made, and 0 errors came of it")
        return Verdict.inconclusive(evidence.not_reached("construction"))

    def fix(self, finding: Finding) -> fixes.Fix | None:
        strategy = finding.facts.get("evaluation")
        if not isinstance(strategy, str) or strategy == "no":
            return None
        code = f'"{strategy}"'
        edit = fixes.AddArgument(finding.location, "save_strategy", code)
        if not finding.facts.get("is_default"):
            return fixes.Fix.of(
                "save when it evaluates", fixes.Replace(finding.location, f"save_strategy={code}"), safe=True
            )
        return fixes.Fix.of("save when it evaluates", edit, safe=True)


def _are_checked(
    settings: TrainingArguments, evaluating: evaluation_schedule.Strategy, saving: evaluation_schedule.Strategy
) -> bool:
    """Whether all of it stands in the call: what is set on the finished object is checked by nobody."""
    names = ["load_best_model_at_end", *(each.name for each in (evaluating, saving) if each.location is not None)]
    return all(evaluation_schedule.is_given_in_call(settings, name) for name in names)


def _number(settings: TrainingArguments, name: str, default: int | None) -> int | None:
    """A number of steps, where it is certain; a share of the steps (below 1) is none."""
    if evaluation_schedule.is_left_out(settings, name):
        return default
    value = literal(settings.value(name))
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
