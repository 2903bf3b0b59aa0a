"""Words without which a regular expression matches nowhere in a text: they are found faster than the expression.

Rules ask hundreds of questions about the whole text of a file, and most are answered with no. A pattern that begins
with `\\b`, or ignores case, is tried at each character (30 to 100 ns), while a word is found at 1 ns for each. An
expression of which no word is there is not even compiled.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

parser: Any = import_module("re._parser")  # Any: what `re` compiles with has no types
REPEATS = (parser.MAX_REPEAT, parser.MIN_REPEAT, parser.POSSESSIVE_REPEAT)

MOST_WORDS = 24
"""Words that are looked for; more of them take as long as the expression."""

SHORTEST = 2
"""Characters of a word: a single one is nearly everywhere."""


def may_match(pattern: str | re.Pattern[str], text: str) -> bool:
    """Whether a text has one of the words without which a regular expression matches nowhere in it."""
    known = _words(pattern, 0) if isinstance(pattern, str) else _words(pattern.pattern, pattern.flags)
    if known is None:
        return True
    words, ignores_case = known
    if not ignores_case:
        return any(word in text for word in words)
    if not text.isascii():  # a long s matches `s`, of which it is no capital
        return True
    lower = _lowered(text)
    return any(word in lower for word in words)


@lru_cache(maxsize=1)
def _lowered(text: str) -> str:
    """A text in lower case, kept for the next expression: it takes as long as to look for a word."""
    return text.lower()


@cache
def _words(pattern: str, flags: int) -> tuple[tuple[str, ...], bool] | None:
    """The words of which a match contains one, and whether their case counts for nothing; None if there are none."""
    try:
        tree = parser.parse(pattern, flags)
    except re.error:
        return None  # whoever searches with it raises the error
    ignores_case = bool(tree.state.flags & re.IGNORECASE)
    words = _needed(tree)
    if words is None or (ignores_case and not all(map(str.isascii, words))):
        return None
    return tuple(dict.fromkeys(map(str.lower, words))) if ignores_case else words, ignores_case


def _needed(parts: Iterable[Any]) -> tuple[str, ...] | None:  # Any: what Python's parser of expressions gives
    """The best of all words that a sequence needs: long ones, and few."""
    found = [words for words in _candidates(parts) if len(words) <= MOST_WORDS and min(map(len, words)) >= SHORTEST]
    return max(found, key=lambda words: (min(map(len, words)), -len(words)), default=None)


def _candidates(parts: Iterable[Any]) -> Iterator[tuple[str, ...]]:
    run = ""
    for kind, value in parts:
        if kind is parser.LITERAL:
            run += chr(value)
            continue
        if kind is not parser.AT:  # `^` or `\b` between two characters leaves them neighbours
            if run:
                yield (run,)
            run = ""
        yield from _inside(kind, value)
    if run:
        yield (run,)


def _inside(kind: Any, value: Any) -> Iterator[tuple[str, ...]]:
    """The words that one part of an expression needs, if it needs any."""
    inner: tuple[str, ...] | None = None
    if kind is parser.BRANCH:
        branches = [_needed(each) for each in value[1]]
        if all(each is not None for each in branches):
            inner = tuple(dict.fromkeys(word for each in branches for word in each or ()))
    elif kind is parser.SUBPATTERN and not value[1] and not value[2]:  # without flags of its own
        inner = _needed(value[3])
    elif kind is parser.ATOMIC_GROUP:
        inner = _needed(value)
    elif kind in REPEATS and value[0] > 0:
        inner = _needed(value[2])
    if inner is not None:
        yield inner
