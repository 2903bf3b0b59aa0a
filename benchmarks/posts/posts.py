"""The posts as they were judged, by reading them, before lintrain ran on them: `posts.csv`, `posts-2.csv` …

A text is one post's code as it was posted. The texts are not part of the project: a folder holds each in a file named
after its address.
"""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

JUDGEMENTS = Path(__file__).with_name("posts.csv")
DRAWS = {1: JUDGEMENTS, **{number: JUDGEMENTS.with_name(f"posts-{number}.csv") for number in (2, 3, 5, 9, 15)}}
"""The table of each draw."""
TOLERANCE = 2
"""How many lines a finding may be away from the words of the mistake: a call goes over several lines."""


@dataclass(frozen=True, slots=True)
class Post:
    """One post as it was judged.

    `rule` is the rule that should report the mistake, which may not exist; `also` names others that would be right, and
    `others` those that are right about other mistakes in the text, all separated by spaces. `words` are parts of the
    lines of the mistake, separated by `|`.
    """

    address: str
    half: str
    what: str
    rule: str
    also: str
    words: str
    others: str
    why: str

    @property
    def name(self) -> str:
        """The name of the file that holds its text."""
        return re.sub(r"\W+", "-", self.address.partition("://")[2]) + ".py"

    @property
    def rules(self) -> frozenset[str]:
        """The rules that are right about the mistake."""
        return frozenset((self.rule, *self.also.split()))

    @property
    def other_rules(self) -> frozenset[str]:
        """The rules that are right about something else in the text."""
        return frozenset(self.others.split())

    def is_at(self, text: str, line: int) -> bool:
        """Whether a line of the text is where the mistake is."""
        return any(abs(line - place) <= TOLERANCE for place in self.lines_in(text))

    def lines_in(self, text: str) -> list[int]:
        """The lines that hold the words of the mistake."""
        words = self.words.split("|")
        return [number for number, line in enumerate(text.splitlines(), start=1) if any(word in line for word in words)]


def half_of(address: str) -> str:
    """The half that a post belongs to: `work` may be looked at, of `measure` only sums are printed."""
    return "measure" if int(hashlib.sha256(address.encode()).hexdigest(), 16) % 2 else "work"


def read_posts(path: Path = JUDGEMENTS) -> list[Post]:
    """Every row of the table."""
    with path.open(newline="", encoding="utf-8") as table:
        return [Post(**row) for row in csv.DictReader(table)]


def read_texts(folder: Path, posts: Iterable[Post]) -> dict[str, str]:
    """The texts that the folder holds, by address."""
    paths = {post.address: folder / post.name for post in posts}
    return {address: path.read_text(encoding="utf-8") for address, path in paths.items() if path.is_file()}
