"""An argument has a value that is none of its choices: a misspelt schedule, optimizer or strategy.

The library raises ValueError when the arguments are created, or when the optimizer is. In YAML, `no` without quotes is
false, which is no strategy either.

## Bad

    args = TrainingArguments("out", lr_scheduler_type="cosin")  # <- unknown-choice
    # raises ValueError: cosin is not a valid SchedulerType

## Good

    args = TrainingArguments("out", lr_scheduler_type="cosine")

## When it is fine

A value that is computed is not judged:

    import os

    args = TrainingArguments("out", lr_scheduler_type=os.environ.get("SCHEDULE", "linear"))

## Fix

Asks first: the most similar choice may not be the intended one.

## References

Transformers, `SchedulerType`, `OptimizerNames`, `IntervalStrategy`; the schemas of axolotl and DeepSpeed.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from lintrain.analysis import library_arguments
from lintrain.knowledge import tables
from lintrain.knowledge.trainers import TRAINING_ARGUMENTS, is_training_arguments
from lintrain.pipeline.record import LibraryCall
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.python import Constant, Sequence, literal
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Pipeline,
    Rule,
    Source,
    Targets,
    Verdict,
    dataclass,
    fixes,
    lazy_pattern,
    one_per_location,
)

LOSSES = lazy_pattern(r"(Loss|_loss|cross_entropy|cross_entropy_with_logits|kl_div)$")
REDUCES_TO_NOTHING = lazy_pattern(
    r"\breduction\s*=\s*(?:None\b|[\"'](?!(?:none|mean|sum|batchmean|elementwise_mean)[\"']))"
)
REDUCTIONS = frozenset({"none", "mean", "sum", "batchmean", "elementwise_mean"})

AXOLOTL = "axolotl.config"
SCHEDULES_OF_AXOLOTL = ("one_cycle", "rex")
MOST_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Claim:
    """The value, and the most similar choice; empty if none is similar."""

    value: str
    near: str


class UnknownChoice(Rule[Claim]):
    level = Level.ERROR
    judges_configurations = True
    keywords = "Arguments|Config|reduction"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return source.contains(REDUCES_TO_NOTHING)

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        is_axolotl = any(call.path == AXOLOTL for call in pipeline.calls)
        seen = set[object]()
        yield from one_per_location(filter(None, (self._of_loss(call) for call in pipeline.calls)))
        for call in pipeline.calls:
            if call.is_guarded or (is_axolotl and is_training_arguments(call.path)):
                continue  # the names of axolotl's keys are others, and it adds schedules and optimizers of its own
            for name, argument in call.arguments.items():
                if argument.location not in seen and (choices := _choices(call.path, name, pipeline)):
                    found = self._judge(call, name, argument, choices)
                    is_own = bool(tables.choices_of(call.path, name))
                    if found and is_own and library_arguments.is_guessed(call.path, call.arguments, pipeline):
                        continue
                    seen.update([argument.location] if found else [])
                    yield from found

    def _of_loss(self, call: LibraryCall) -> Finding[Claim] | None:
        """The `reduction` of a loss of torch, which is a word even where nothing is reduced."""
        argument = call.arguments.get("reduction")
        is_loss = call.path.startswith(("torch.nn.", "torch.nn.functional.")) and LOSSES.search(call.path) is not None
        if argument is None or not is_loss or call.is_guarded or not isinstance(argument.value, Constant):
            return None
        value = argument.value.value
        if argument.value.may_differ or value in REDUCTIONS or not (value is None or isinstance(value, str)):
            return None
        return self.finding(
            argument.location,
            f"`reduction` has no choice `{value}`",
            help='did you mean `"none"`?' if value is None else "choose one of `none`, `mean`, `sum`",
            subject="reduction",
            claim=Claim(str(value), "none" if value is None else ""),
        )

    def _judge(
        self, call: LibraryCall, name: str, argument: Argument, choices: tuple[str | int, ...]
    ) -> list[Finding[Claim]]:
        value = literal(argument.value)
        if isinstance(argument.value, Sequence):
            items = [literal(item) for item in argument.value.items]
            value = next((item for item in items if item is not None and item not in choices), None)
        if value is False and "no" in choices and argument.source is not None and argument.text.lower() == "no":
            return [self._report_false(name, argument)]
        if isinstance(value, bool) or not isinstance(value, str | int) or value in choices:
            return []
        near = next(iter(get_close_matches(str(value), [str(each) for each in choices], n=1, cutoff=0.75)), "")
        if call.path == AXOLOTL and name != "lr_scheduler" and not near:
            return []  # a plugin may bring others
        shown = ", ".join(f"`{each}`" for each in choices[:MOST_SHOWN]) + (", …" if len(choices) > MOST_SHOWN else "")
        return [
            self.finding(
                argument.location,
                f"`{name}` has no choice `{value}`",
                help=f"did you mean `{near}`?" if near else f"choose one of {shown}",
                subject=name,
                claim=Claim(str(value), near if isinstance(literal(argument.value), str) else ""),
            )
        ]

    def _report_false(self, name: str, argument: Argument) -> Finding[Claim]:
        return self.finding(
            argument.location,
            f"`{name}: no` is false in YAML, and no choice of `{name}`",
            help='write `"no"` in quotes',
            subject=name,
            claim=Claim("False", "no"),
        )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        if finding.claim is None:
            return Verdict.inconclusive("the finding names no value")
        failed = evidence.failed_with(f"{finding.claim.value} is not a valid")
        if failed is not None:
            return Verdict.confirmed(f"the script failed with ValueError: `{finding.claim.value}` is no choice")
        if evidence.ran(finding.location):
            return Verdict.refuted(f"the arguments were created with `{finding.claim.value}`")
        return Verdict.inconclusive("the run did not show whether the value is accepted")

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None or not finding.claim.near:
            return None
        edit = fixes.Replace(finding.location, f'"{finding.claim.near}"')
        return fixes.Fix.of(f"write `{finding.claim.near}`", edit, safe=False)


def _choices(path: str, name: str, pipeline: Pipeline) -> tuple[str | int, ...]:
    """What an argument may be set to; empty if that is not known."""
    if path.startswith("trl."):
        target = pipeline.targets.get("trl")
        if own := tables.choices_of(path, name):
            return own if target is not None and not target.is_beyond else ()
    if is_training_arguments(path):
        return tables.choices_of(TRAINING_ARGUMENTS, name)
    if path == AXOLOTL and name == "lr_scheduler":
        return (*tables.choices_of(TRAINING_ARGUMENTS, "lr_scheduler_type"), *SCHEDULES_OF_AXOLOTL)
    own = tables.choices_of(path, name)
    if path == AXOLOTL and name == "optimizer":
        return (*own, *tables.choices_of(TRAINING_ARGUMENTS, "optim"))
    return own
