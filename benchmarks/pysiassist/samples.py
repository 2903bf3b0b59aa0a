"""The samples as they were judged, by reading them, before lintrain ran on them: `samples.csv`.

`path` is a cell of a workbook in the artefact. `has_mistake` is the artefact's label. `visible` says whether an expert
sees a mistake in the text: `yes`, `no` (it depends on code or data that the sample lacks), or `not-a-mistake`. A
visible mistake is not always the labelled one, and some samples that are labelled correct have one.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

JUDGEMENTS = Path(__file__).with_name("samples.csv")


@dataclass(frozen=True, slots=True)
class Place:
    """A rule that is right about a sample, and the lines at which it may report."""

    rule: str
    first: int
    last: int

    def holds(self, rule: str, line: int) -> bool:
        """Whether a finding is this one."""
        return rule == self.rule and self.first <= line <= self.last


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample as it was judged.

    `line` is a line or a range of lines, `4-6`. `also` names other rules that are right, separated by spaces: `name` at
    the same lines, `name@9` about another mistake in line 9.
    """

    path: str
    pattern: str
    half: str
    has_mistake: str
    visible: str
    kind: str
    line: str
    rule: str
    also: str
    why: str

    @property
    def is_labelled(self) -> bool:
        """Whether the artefact says that the sample has a mistake."""
        return self.has_mistake == "yes"

    @property
    def is_visible(self) -> bool:
        """Whether an expert sees a mistake in the text."""
        return self.visible == "yes"

    @property
    def answers(self) -> list[Place]:
        """The findings that count as finding the mistake."""
        names = [self.rule, *(name for name in self.also.split() if "@" not in name)]
        return [Place(name, *_lines(self.line)) for name in names] if self.is_visible else []

    @property
    def others(self) -> list[Place]:
        """The findings about other mistakes that the sample has."""
        return list(_elsewhere(self.also))


def _elsewhere(also: str) -> Iterator[Place]:
    for name in also.split():
        rule, at, lines = name.partition("@")
        if at:
            yield Place(rule, *_lines(lines))


def _lines(written: str) -> tuple[int, int]:
    first, _, last = written.partition("-")
    return int(first), int(last or first)


def half_of(path: str) -> str:
    """The half that a sample belongs to: `work` may be looked at, of `measure` only sums are printed."""
    return "measure" if int(hashlib.sha256(path.encode()).hexdigest(), 16) % 2 else "work"


def read_samples(path: Path = JUDGEMENTS) -> list[Sample]:
    """Every row of the table."""
    with path.open(newline="", encoding="utf-8") as table:
        return [Sample(**row) for row in csv.DictReader(table)]
