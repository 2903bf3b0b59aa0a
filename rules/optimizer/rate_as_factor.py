"""The function of a `LambdaLR` returns a learning rate, but the schedule multiplies the rate with it.

The optimizer's own rate is multiplied with what the function returns. A function that returns the rate itself gives the
square of it: 1e-3 becomes 1e-6. The loss hardly falls, and no error is raised. Since torch 1.4, `get_lr()` also
multiplies a rate that was multiplied already: of most schedules, it is not the rate in use.

## Bad

    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1e-3 * 0.95**epoch)  # <- rate-as-factor
    for epoch in range(3):
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        schedule.step()

## Good

    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.95**epoch)
    for epoch in range(3):
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        schedule.step()

## When it is fine

With a rate of 1, the function returns the rate:

    optimizer = torch.optim.AdamW(net.parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1e-3 * 0.95**epoch)
    for epoch in range(3):
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        schedule.step()

## Fix

None: the function can return a factor, or the optimizer be given a rate of 1.

## References

PyTorch documentation, `torch.optim.lr_scheduler.LambdaLR`: "the initial lr times a given function".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import rates_as_factors
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.model import Optimizer, Scheduler
from lintrain.pipeline.values.python import number_of
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, one_per_location
from lintrain.text import show_number

USUAL = 0.1
"""The highest rate of an optimizer that is no factor of a schedule."""
TINY = 0.02
"""The highest factor that leaves no useful rate: a fiftieth."""
SHOWN = 40
"""So many characters of code fit into a message."""
NEAR = 10
"""How far a rate that a function returns is at most from the optimizer's: the schedule may begin with another one."""


ALWAYS = frozenset({"ExponentialLR", "CosineAnnealingLR", "MultiplicativeLR"})
AT_DECAYS = frozenset({"StepLR", "MultiStepLR"})
"""Schedules whose `get_lr` computes the next rate from the present one, in each epoch or in those of a decay."""


class RateAsFactor(Rule):
    level = Level.ERROR
    keywords = "LambdaLR|get_lr"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for schedule in pipeline.schedulers:
            if schedule.name == "LambdaLR":
                yield from self._report_rate(pipeline, schedule)

        yield from one_per_location(map(self._report_read, _reads(pipeline)))

    def _report_rate(self, pipeline: Pipeline, schedule: Scheduler) -> Iterator[Finding]:
        optimizer, origin = schedule.optimizer, schedule.origin
        if not isinstance(optimizer, Optimizer) or optimizer.has_groups or origin is None:
            return
        rate, highest = number_of(optimizer.learning_rate), max(schedule.factors, default=None)
        given = optimizer.learning_rate_location
        related = [Related(given, "the rate that is multiplied", "rate")] if given else []
        if rate is not None and highest is not None and _is_a_rate(highest, rate):
            message = f"`LambdaLR` multiplies the rate of {show_number(rate)} by at most {show_number(highest)}"
        elif (found := rates_as_factors.rate_in(pipeline, schedule)) is not None:
            factor, code = found
            message = f"`LambdaLR` multiplies the rate by {f'`{code}`' if len(code) <= SHOWN else 'itself'} again"
            related.append(Related(factor, "the function returns the rate", "factor"))
        else:
            return
        yield self.finding(
            origin,
            message,
            related=related,
            help="let the function return a share of the rate: `0.95**epoch`; or give the optimizer `lr=1.0`",
        )

    def _report_read(self, read: Misuse) -> Finding:
        name = read.value.name if isinstance(read.value, Scheduler) else ""
        when = "" if name in ALWAYS else " at each decay"
        return self.finding(
            read.location,
            f"`get_lr` multiplies the rate of `{name}` once more{when}",
            help=f"read the rate in use: `{read.text or 'scheduler'}.get_last_lr()`",
            subject="get_lr",
            level=Level.NOTE,
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        if finding.subject == "get_lr":
            return Verdict.inconclusive("what a script reads of a schedule was not measured")
        if evidence.loop is None or evidence.step is None:
            return Verdict.inconclusive(evidence.without_loop)
        uses = [use for use in evidence.loop.schedules if use.name == "LambdaLR" and use.group_rates[0]]
        if not uses or not evidence.step.groups:
            return Verdict.inconclusive("no `LambdaLR` was made before the part of the loop that ran")
        if uses[0].peak != 0:
            return Verdict.refuted(f"the rate rises until step {uses[0].peak}", peak=uses[0].peak)
        given, first = max(uses[0].group_rates[0]), max(group.first_learning_rate for group in evidence.step.groups)
        text = f"the optimizer's rate of {given:g} is at most {first:g} under the schedule"
        if first <= given * TINY:
            return Verdict.confirmed(text, first=first)
        return Verdict.refuted(text, first=first)


def _is_a_rate(highest: float, rate: float) -> bool:
    """Whether the highest factor is a learning rate near the optimizer's own, and leaves next to nothing of it."""
    return 0 < rate <= USUAL and highest <= TINY and rate / NEAR <= highest <= rate * NEAR


def _reads(pipeline: Pipeline) -> Iterator[Misuse]:
    """The calls of `get_lr` of schedules that compute the next rate from the present one."""
    of_next = (each for each in pipeline.misuses if each.use == "rate of the next step")
    for misuse in of_next if pipeline.targets.get("torch") is not None else ():
        schedule = misuse.value if isinstance(misuse.value, Scheduler) else None
        if schedule is not None and schedule.path.startswith("torch.") and schedule.name in ALWAYS | AT_DECAYS:
            yield misuse
