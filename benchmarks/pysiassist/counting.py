"""Which visible mistakes were found, and which findings are false."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.pysiassist.checking import Reported
from benchmarks.pysiassist.samples import Sample

ABOUT_THE_TEXT = frozenset({"syntax-error", "undefined-name"})
"""What is reported because a sample is a piece of a script; counted apart."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What lintrain reports for one sample, sorted by the judgement."""

    sample: Sample
    is_found: bool
    false: tuple[Reported, ...]
    about_the_text: tuple[Reported, ...]

    @property
    def is_missed(self) -> bool:
        """Whether a visible mistake is not found at its place."""
        return self.sample.is_visible and not self.is_found


@dataclass(frozen=True, slots=True)
class Sums:
    """One line of the result."""

    half: str
    label: str
    samples: int
    visible: int
    found: int
    false: int
    about_the_text: int

    @property
    def share(self) -> float:
        """How many of the visible mistakes are found, 0 to 1."""
        return self.found / self.visible if self.visible else 1.0


def judge(sample: Sample, found: Sequence[Reported]) -> Outcome:
    """Compare the findings in a sample with its judgement."""
    answers, others = sample.answers, sample.others
    right = [each for each in found if any(place.holds(each.rule, each.line) for place in answers)]
    known = [each for each in found if any(place.holds(each.rule, each.line) for place in (*answers, *others))]
    rest = [each for each in found if each not in known]
    return Outcome(
        sample,
        bool(right),
        tuple(each for each in rest if each.rule not in ABOUT_THE_TEXT),
        tuple(each for each in rest if each.rule in ABOUT_THE_TEXT),
    )


def judge_all(samples: Sequence[Sample], found: Mapping[str, Sequence[Reported]]) -> list[Outcome]:
    """The outcome of every sample that has code."""
    return [judge(sample, found[sample.path]) for sample in samples if sample.path in found]


def add_up(half: str, label: str, outcomes: Sequence[Outcome]) -> Sums:
    """The sums over some samples."""
    visible = [outcome for outcome in outcomes if outcome.sample.is_visible]
    return Sums(
        half,
        label,
        len(outcomes),
        len(visible),
        sum(outcome.is_found for outcome in visible),
        sum(len(outcome.false) for outcome in outcomes),
        sum(len(outcome.about_the_text) for outcome in outcomes),
    )


def all_sums(outcomes: Sequence[Outcome]) -> list[Sums]:
    """The sums over each half, and over both: of the samples with a labelled mistake and of those labelled correct."""
    halves = sorted({outcome.sample.half for outcome in outcomes}, reverse=True)
    groups = {half: {half} for half in halves} | ({"both": set(halves)} if len(halves) > 1 else {})
    found: list[Sums] = []
    for name, group in groups.items():
        inside = [outcome for outcome in outcomes if outcome.sample.half in group]
        found.append(add_up(name, "mistake", [each for each in inside if each.sample.is_labelled]))
        found.append(add_up(name, "correct", [each for each in inside if not each.sample.is_labelled]))
    return found
