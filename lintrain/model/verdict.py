"""What the evidence shows about one finding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from lintrain.startup.lazy_dataclass import dataclass

Measured = str | int | float | bool | None | list["Measured"] | dict[str, "Measured"]


class Outcome(StrEnum):
    """The three results that a probe can give for a finding."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Verdict:
    """An outcome, the reason in one line with its numbers, and the measured values by name."""

    outcome: Outcome
    reason: str
    measured: Mapping[str, Measured] = field(default_factory=dict[str, Measured])

    @classmethod
    def confirmed(cls, reason: str, **measured: Measured) -> Verdict:
        """The claim is true of this run."""
        return cls(Outcome.CONFIRMED, reason, measured)

    @classmethod
    def refuted(cls, reason: str, **measured: Measured) -> Verdict:
        """The claim is false of this run."""
        return cls(Outcome.REFUTED, reason, measured)

    @classmethod
    def inconclusive(cls, reason: str, **measured: Measured) -> Verdict:
        """The run did not show whether the claim is true, for this reason."""
        return cls(Outcome.INCONCLUSIVE, reason, measured)
