"""The best checkpoint should be loaded, but checkpoints are not saved when the model is evaluated.

Only a checkpoint that was evaluated can be the best one. The training arguments raise an error when they are created
unless saving and evaluation have the same strategy and `save_steps` is a multiple of `eval_steps`.

## Bad

    args = TrainingArguments("out", eval_strategy="epoch", load_best_model_at_end=True)  # <- unmatched-save-strategy
    # raises ValueError: --load_best_model_at_end requires the save and eval strategy to match

Saving between two evaluations does not match either:

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

The user's choice is unknown:

    strategy = os.environ.get("STRATEGY", "no")
    args = TrainingArguments(
        "out",
        eval_strategy=strategy,
        save_strategy=strategy,
        load_best_model_at_end=strategy != "no",
    )

## Fix

Safe: without the fix, creating the arguments raises an error.

## References

Transformers documentation, `TrainingArguments.load_best_model_at_end`; `TrainingArguments.__post_init__` of 4.46 to
5.23; `save_strategy="best"` exists since 4.47.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import evaluation_schedule
from lintrain.pipeline.values.python import is_true, literal
from lintrain.pipeline.values.training import TrainingArguments
from lintrain.rule import (
    ArgumentsRule,
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Verdict,
    dataclass,
    fixes,
)

RAISED = ("--load_best_model_at_end requires",)
EVERY = 500
"""The default of `save_steps`, and of `logging_steps`, which is the default of `eval_steps`."""


@dataclass(frozen=True, slots=True)
class Claim:
    """When the run evaluates, and whether `save_strategy` is left at its default."""

    evaluation: str
    is_default: bool


class UnmatchedSaveStrategy(ArgumentsRule[Claim]):
    level = Level.ERROR
    judges_configurations = True
    keywords = "Arguments|Config"

    def judge(self, arguments: TrainingArguments, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        wanted = arguments.locations.get("load_best_model_at_end")
        if not is_true(arguments.value("load_best_model_at_end")) or wanted is None:
            return
        evaluating = evaluation_schedule.evaluation_strategy(arguments)
        saving = evaluation_schedule.saving_strategy(arguments)
        if evaluating is None or saving is None or not _are_checked(arguments, evaluating, saving):
            return
        if evaluating.value != saving.value and saving.value != "best":
            yield self._strategies(arguments, wanted, evaluating, saving)
        elif evaluating.value == saving.value == "steps":
            yield from self._steps(arguments, wanted)

    def _strategies(
        self,
        settings: TrainingArguments,
        wanted: Location,
        evaluating: evaluation_schedule.Strategy,
        saving: evaluation_schedule.Strategy,
    ) -> Finding[Claim]:
        reasons = [Related(wanted, "needs a checkpoint for each evaluation", "best")]
        reasons += saving.reason("sets when to save") + evaluating.reason("sets when to evaluate")
        if evaluating.value == "no":
            advice = 'evaluate during training: `eval_strategy="epoch", save_strategy="epoch"`'
        else:
            advice = f'save when the model is evaluated: `save_strategy="{evaluating.value}"`'
        return self.finding(
            saving.location or settings.origin or wanted,
            f'`{saving.name}` is "{saving.value}", but `{evaluating.name}` is "{evaluating.value}"',
            related=reasons,
            help=advice,
            subject="save_strategy",
            claim=Claim(evaluating.value, saving.location is None),
        )

    def _steps(self, settings: TrainingArguments, wanted: Location) -> Iterator[Finding[Claim]]:
        logging = _number(settings, "logging_steps", EVERY)
        saving, evaluating = _number(settings, "save_steps", EVERY), _number(settings, "eval_steps", logging)
        if saving is None or evaluating is None or saving % evaluating == 0:
            return
        location = settings.locations.get("save_steps") or settings.locations.get("eval_steps") or wanted
        yield self.finding(
            location,
            f"`save_steps` is {saving}, which is not a multiple of `eval_steps`, {evaluating}",
            related=[Related(wanted, "needs a checkpoint for each evaluation", "best")],
            help=f"make `save_steps` a multiple of {evaluating}",
            subject="save_steps",
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        failed = evidence.failed_with(*RAISED)
        if failed is not None and failed.failure is not None and failed.failure.location is not None:
            yield self.finding(
                failed.failure.location,
                "checkpoints are not saved when the model is evaluated, so the best one cannot be loaded",
                help="give `save_strategy` and `save_steps` the values of `eval_strategy` and `eval_steps`",
                subject="save_strategy",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        stage = evidence.failed_with(*RAISED)
        if stage is not None and stage.failure is not None:
            return Verdict.confirmed(f"creating the arguments raised `{stage.failure.type}`")
        if evidence.passed("construction"):
            return Verdict.refuted("the arguments were created with `load_best_model_at_end`, without an error")
        return Verdict.inconclusive(evidence.not_reached("construction"))

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        if claim is None or claim.evaluation == "no":
            return None
        code = f'"{claim.evaluation}"'
        edit: fixes.Edit = fixes.AddArgument(finding.location, "save_strategy", code)
        if not claim.is_default:
            edit = fixes.SetArgument(finding.location, "save_strategy", code)
        return fixes.Fix.of("save when the model is evaluated", edit, safe=True)


def _are_checked(
    settings: TrainingArguments, evaluating: evaluation_schedule.Strategy, saving: evaluation_schedule.Strategy
) -> bool:
    """Whether all of these arguments are in the call: those set on the finished object are not checked."""
    names = ["load_best_model_at_end", *(each.name for each in (evaluating, saving) if each.location is not None)]
    return all(evaluation_schedule.is_given_in_call(settings, name) for name in names)


def _number(settings: TrainingArguments, name: str, default: int | None) -> int | None:
    """A number of steps; None if it is not certain, or a share of all steps (below 1)."""
    if evaluation_schedule.is_left_out(settings, name):
        return default
    value = literal(settings.value(name))
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
