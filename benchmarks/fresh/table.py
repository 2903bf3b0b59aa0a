"""The table of judged findings, and which of them a run still gives."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.real_code import Judgement, read_judgements

FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Draw:
    """The tables of one draw of repositories: which there are, how findings were judged, what a reviewer read."""

    repositories: Path
    findings: Path
    read: Path


def draw(number: int) -> Draw:
    """The tables of the first draw, or of a later one."""
    end = "" if number == 1 else f"-{number}"
    return Draw(*(FOLDER / f"{name}{end}.csv" for name in ("repositories", "findings", "read")))


def draws() -> list[int]:
    """The numbers of all draws that have a table of repositories."""
    return [1, *sorted(int(path.stem.rpartition("-")[2]) for path in FOLDER.glob("repositories-*.csv"))]


REPOSITORIES, FINDINGS, READ = draw(1).repositories, draw(1).findings, draw(1).read

VERDICTS = TRUE, DEBATABLE, FALSE = "true", "debatable", "false"

VERSIONS = frozenset(
    ("removed-argument", "removed-name", "syntax-error", "undefined-name", "unknown-argument", "unreadable-file")
)
"""Rules about names, arguments, grammar and files; of their many findings a sample is judged, of the others all."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Of the judged findings of one kind: how many have a verdict, and how many of those are still given."""

    judged: Counter[str]
    given: Counter[str]
    unjudged: int

    @property
    def share(self) -> float:
        """The share of true findings among those that are judged and still given; 1 where there is none."""
        all_given = self.given.total()
        return self.given[TRUE] / all_given if all_given else 1.0


def is_about_versions(rule: str) -> bool:
    """Whether a rule is about names, arguments and grammar rather than training."""
    return rule in VERSIONS


def judgements_of(names: Iterable[str], path: Path = FINDINGS) -> list[Judgement]:
    """The judgements of some repositories."""
    known = frozenset(names)
    return [judgement for judgement in read_judgements(path) if judgement.repository in known]


def tally(judged: Sequence[Judgement], given: Sequence[Judgement]) -> Tally:
    """How many of the judged findings are still given, by verdict, and how many given ones nobody judged."""
    verdicts: Mapping[tuple[str, str, int, str], str] = {each.claim: each.verdict for each in judged}
    claims = {each.claim for each in given}
    return Tally(
        Counter(verdicts.values()),
        Counter(verdict for claim, verdict in verdicts.items() if claim in claims),
        len(claims - verdicts.keys()),
    )


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake that a reviewer found in a training file without asking lintrain.

    `rules` report it; without any it has no rule yet, and `why` says what it is.
    """

    repository: str
    file: str
    line: int
    rules: frozenset[str]
    why: str

    def is_found(self, given: Iterable[Judgement]) -> bool:
        """Whether one of its rules reports something at most three lines away."""
        return any(
            each.repository == self.repository
            and each.file == self.file
            and each.rule in self.rules
            and abs(each.line - self.line) <= NEAR
            for each in given
        )


NEAR = 3
"""Lines between a mistake and the finding that reports it."""


def read_mistakes(path: Path = READ) -> list[Mistake]:
    """The mistakes of the files that were read."""
    with path.open(newline="", encoding="utf-8") as table:
        return [_mistake(row) for row in csv.DictReader(table)]


def _mistake(row: dict[str, str]) -> Mistake:
    rules = frozenset(filter(None, row["rule"].split(";")))
    return Mistake(row["repository"], row["file"], int(row["line"]), rules, row["why"])
