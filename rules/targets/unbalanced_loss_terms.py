"""One term of the loss is thousands of times as large as another.

Losses that are added up share one gradient. If one of them is ten thousand times another, the steps follow it alone:
the other term learns nothing, however the sum falls. No error is raised. Targets in large units and sums over all
entries are usual causes.

## Bad

    both = nn.Linear(8, 4)
    optimizer = torch.optim.Adam(both.parameters(), lr=1e-3)
    prices = torch.full((96,), 2500.0)
    for (x, y), price in zip(loader, prices.split(16)):
        optimizer.zero_grad()
        outputs = both(x)
        of_class = F.cross_entropy(outputs[:, :3], y)  # <- unbalanced-loss-terms
        loss = of_class + F.mse_loss(outputs[:, 3], price)
        loss.backward()
        optimizer.step()

A term that is computed by hand is seen as what the others leave of the sum:

    both = nn.Linear(8, 4)
    optimizer = torch.optim.Adam(both.parameters(), lr=1e-3)
    prices = torch.full((96,), 2500.0)
    for (x, y), price in zip(loader, prices.split(16)):
        optimizer.zero_grad()
        outputs = both(x)
        loss = F.cross_entropy(outputs[:, :3], y)  # <- unbalanced-loss-terms
        loss = loss + ((outputs[:, 3] - price) ** 2).mean()
        loss.backward()
        optimizer.step()

## Good

    both = nn.Linear(8, 4)
    optimizer = torch.optim.Adam(both.parameters(), lr=1e-3)
    prices = torch.full((96,), 2500.0)
    for (x, y), price in zip(loader, prices.split(16)):
        optimizer.zero_grad()
        outputs = both(x)
        of_class = F.cross_entropy(outputs[:, :3], y)
        loss = of_class + F.mse_loss(outputs[:, 3], price / 2500)
        loss.backward()
        optimizer.step()

## When it is fine

A term that the sum itself makes small is a detail on purpose, and one that is nearly zero is learned already:

    both = nn.Linear(8, 4)
    optimizer = torch.optim.Adam(both.parameters(), lr=1e-3)
    for x, y in loader:
        optimizer.zero_grad()
        outputs = both(x)
        loss = F.cross_entropy(outputs[:, :3], y) + 1e-5 * F.mse_loss(outputs[:, 3], x[:, 0])
        loss = loss + F.mse_loss(outputs, outputs.detach() + 1e-4)
        loss.backward()
        optimizer.step()

## Fix

None: terms are scaled by the units of their targets, or by weights that the author has to choose.

## References

Kendall, Gal, Cipolla: Multi-Task Learning Using Uncertainty to Weigh Losses (2018).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lintrain.rule import Evidence, Finding, Level, Rule, Verdict

if TYPE_CHECKING:
    from lintrain.evidence.run import LossTerm

TIMES = 1e4
LEARNED = 0.01
"""A loss that is smaller has hardly anything to learn."""


class UnbalancedLossTerms(Rule):
    level = Level.WARNING

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        terms = _apart(evidence)
        if terms is not None and terms[0].location is not None:
            small, large = terms
            yield self.finding(
                small.location or evidence.location,
                f"this `{small.function}` is {small.value:.3g}, and {_named(large)} is {large.value:.3g}",
                help="scale the targets, or weigh the terms, so that they are of one order of magnitude",
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        every, terms = _terms(evidence), _apart(evidence)
        if evidence.loop is None and evidence.forward is None:
            return Verdict.inconclusive(evidence.not_reached("forward"))
        values = ", ".join(f"{term.value:.3g}" for term in every)
        if terms is None:
            text = f"the loss adds up {len(every)} terms: {values}"
            return Verdict.refuted(text) if every else Verdict.inconclusive("0 terms of the loss are known")
        small, large = terms
        return Verdict.confirmed(
            f"of the {len(every)} terms {values}, one is {large.value / small.value:.2g} times another",
            smallest=small.value,
            largest=large.value,
        )


def _named(term: LossTerm) -> str:
    return f"another `{term.function}`" if term.function else "another term"


def _terms(evidence: Evidence) -> tuple[LossTerm, ...]:
    """Those of the first loss: of a loop, else of a Trainer."""
    if evidence.loop is not None:
        return evidence.loop.terms
    return evidence.forward.terms if evidence.forward is not None else ()


def _apart(evidence: Evidence) -> tuple[LossTerm, LossTerm] | None:
    """The smallest term that nothing makes small, and the largest of all, if they are of other orders of magnitude."""
    terms = _terms(evidence)
    plain = [term for term in terms if term.function and term.factor >= 1.0 and term.value >= LEARNED]
    if len(terms) < 2 or not plain:
        return None
    small, large = min(plain, key=lambda term: term.value), max(terms, key=lambda term: term.value)
    return (small, large) if large.value > TIMES * small.value else None
