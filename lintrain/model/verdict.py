"""What the evidence says of one finding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from lintrain.startup.lazy_dataclass import dataclass

Measured = str | int | float | bool | None | list["Measured"] | dict[str, "Measured"]


class Outcome(StrEnum):
    """The three answers that a probe can give."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A ruling, the reason in one line with its numbers, and the measured values by name."""

    outcome: Outcome
    reason: str
    measured: Mapping[str, Measured] = field(default_factory=dict[str, Measured])


def confirmed(reason: str, **measured: Measured) -> Verdict:
    """The claim is true of this run."""
    return Verdict(Outcome.CONFIRMED, reason, measured)


def refuted(reason: str, **measured: Measured) -> Verdict:
    """The claim is false of this run."""
    return Verdict(Outcome.REFUTED, reason, measured)


def inconclusive(reason: str, **measured: Measured) -> Verdict:
    """The run did not show whether the claim is true, for this reason."""
    return Verdict(Outcome.INCONCLUSIVE, reason, measured)
