"""Which mistakes were found, and which other findings are not known to be true."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.posts.posts import Post
from benchmarks.pysiassist.checking import Reported

ABOUT_THE_TEXT = frozenset({"removed-argument", "removed-name", "syntax-error", "undefined-name"})
"""What is reported because a text is a piece of a script, or older than today's libraries; counted apart."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What lintrain reports for one post, sorted by the judgement."""

    post: Post
    is_found: bool
    unknown: tuple[Reported, ...]
    about_the_text: int


@dataclass(frozen=True, slots=True)
class Sums:
    """One line of the result."""

    half: str
    posts: int
    found: int
    unknown: int
    about_the_text: int

    @property
    def share(self) -> float:
        """How many of the mistakes are found, 0 to 1."""
        return self.found / self.posts if self.posts else 1.0


def judge(post: Post, text: str, found: Sequence[Reported]) -> Outcome:
    """Compare the findings in a text with its judgement."""
    right = [each for each in found if each.rule in post.rules and post.is_at(text, each.line)]
    known = post.rules | post.other_rules | ABOUT_THE_TEXT
    unknown = [each for each in found if each.rule not in known]
    return Outcome(post, bool(right), tuple(unknown), sum(each.rule in ABOUT_THE_TEXT for each in found))


def judge_all(
    posts: Iterable[Post], texts: Mapping[str, str], found: Mapping[str, Sequence[Reported]]
) -> list[Outcome]:
    """The outcome of every post that has a text."""
    return [judge(post, texts[post.address], found[post.address]) for post in posts if post.address in texts]


def add_up(half: str, outcomes: Sequence[Outcome]) -> Sums:
    """The sums over some posts."""
    return Sums(
        half,
        len(outcomes),
        sum(outcome.is_found for outcome in outcomes),
        sum(len(outcome.unknown) for outcome in outcomes),
        sum(outcome.about_the_text for outcome in outcomes),
    )


def all_sums(outcomes: Sequence[Outcome]) -> list[Sums]:
    """The sums over each half, and over both."""
    halves = sorted({outcome.post.half for outcome in outcomes}, reverse=True)
    lines = [add_up(half, [each for each in outcomes if each.post.half == half]) for half in halves]
    return [*lines, add_up("both", outcomes)] if len(halves) > 1 else lines
