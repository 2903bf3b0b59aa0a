"""OneCycleLR replaces the different learning rates of an optimizer's groups with one.

With a single number as `max_lr`, the schedule gives every group of parameters the same rate. Rates that were set by
group, such as a smaller one for pretrained layers, have no effect, and no warning appears.

## Bad

    groups = [
        {"params": net[0].parameters(), "lr": 1e-4},
        {"params": net[2].parameters(), "lr": 1e-2},
    ]
    optimizer = torch.optim.AdamW(groups)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=1e-2, total_steps=1000  # <- flattened-group-rates
    )
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
        schedule.step()

## Good

    groups = [
        {"params": net[0].parameters(), "lr": 1e-4},
        {"params": net[2].parameters(), "lr": 1e-2},
    ]
    optimizer = torch.optim.AdamW(groups)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=[1e-4, 1e-2], total_steps=1000
    )
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
        schedule.step()

## When it is fine

Groups that differ only in their weight decay:

    groups = [{"params": [net[0].weight]}, {"params": [net[0].bias], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=1000)
    for x, y in loader:
        criterion(net(x), y).backward()
        optimizer.step()
        schedule.step()

## Fix

Asks first: the rates of the groups become the highest ones of the cycle.

## References

PyTorch documentation, `torch.optim.lr_scheduler.OneCycleLR`: `max_lr` is a number, or one for each group.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.pipeline.values.model import Optimizer
from lintrain.pipeline.values.python import Mapping, Sequence, Value, literal
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, dataclass, fixes


@dataclass(frozen=True, slots=True)
class Claim:
    """The rates of the groups, in their order."""

    rates: tuple[float, ...]


class FlattenedGroupRates(Rule[Claim]):
    level = Level.WARNING
    keywords = "OneCycleLR"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for scheduler in pipeline.schedulers:
            highest, optimizer = scheduler.given.get("max_lr"), scheduler.optimizer
            if scheduler.name != "OneCycleLR" or highest is None or not isinstance(optimizer, Optimizer):
                continue
            rates, rate = _rates_of(optimizer), literal(highest.value)
            if len(set(rates)) < 2 or not isinstance(rate, float | int):
                continue
            made = [Related(optimizer.origin, "sets a rate for each group", "groups")] if optimizer.origin else []
            yield self.finding(
                highest.location,
                f"`OneCycleLR` gives the {len(rates)} groups one rate, {rate:g}, instead of their own",
                related=made,
                help="pass a list with one rate for each group",
                claim=Claim(rates),
            )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        for schedule in evidence.loop.schedules if evidence.loop is not None else ():
            before, after = schedule.group_rates
            is_flat = len(before) == len(after) and len(set(before)) > 1 and len(set(after)) == 1
            if is_flat and schedule.made_at is not None and schedule.name == "OneCycleLR":
                yield self.finding(
                    schedule.made_at,
                    f"`{schedule.name}` gives the {len(before)} groups one rate, {after[0]:g}, instead of their own",
                    help="pass a list with one rate for each group",
                    claim=Claim(before),
                )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        groups = evidence.step.groups if evidence.step else ()
        rates = [group.learning_rate for group in groups]
        if finding.claim is None or len(rates) != len(finding.claim.rates):
            return Verdict.inconclusive(f"the run shows the rates of {len(rates)} groups")
        text = f"the {len(rates)} groups have the rates {', '.join(f'{rate:g}' for rate in rates)}"
        if len(set(rates)) == 1:
            return Verdict.confirmed(text, rates=[*rates])
        return Verdict.refuted(text, rates=[*rates])

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None:
            return None
        code = f"[{', '.join(_written(rate) for rate in finding.claim.rates)}]"
        return fixes.Fix.of("pass the rates of the groups", fixes.Replace(finding.location, code), safe=False)


def _written(rate: float) -> str:
    """A rate as code: `1e-4` in place of `0.0001`."""
    digits, mark, exponent = f"{rate:e}".partition("e")
    return f"{float(digits):g}{mark}{int(exponent)}" if mark and rate < 1 else f"{rate:g}"


def _rates_of(optimizer: Optimizer) -> tuple[float, ...]:
    """The literal rates of all groups, in their order; empty if one of them is not known."""
    groups = optimizer.arguments.get("params")
    if not isinstance(groups, Sequence) or not groups.is_complete or optimizer.is_extended:
        return ()
    default = literal(optimizer.learning_rate)
    rates = [_rate_of(group, default) for group in groups.items]
    known = tuple(float(rate) for rate in rates if isinstance(rate, float | int))
    return known if len(known) == len(rates) else ()


def _rate_of(group: Value, default: object) -> object:
    if not isinstance(group, Mapping) or not group.is_complete:
        return None
    return literal(group.entries["lr"]) if "lr" in group.entries else default
