"""Words without which a regular expression matches nowhere in a text: they are found faster than the expression.

Rules ask hundreds of questions about the whole text of a file, and most are answered with no. A pattern that begins
with `\\b`, or ignores case, is tried at each character (30 to 100 ns), while a word is found at 1 ns for each. An
expression of which no word is there is not even compiled.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple

from lintrain.startup.lazy_pattern import lazy_pattern

parser: Any = import_module("re._parser")  # Any: what `re` compiles with has no types
REPEATS = (parser.MAX_REPEAT, parser.MIN_REPEAT, parser.POSSESSIVE_REPEAT)
ASSERTIONS = (parser.ASSERT, parser.ASSERT_NOT)
STARTS = (parser.AT_BOUNDARY, parser.AT_BEGINNING, parser.AT_BEGINNING_STRING)
SPACES = (parser.CATEGORY_SPACE, parser.CATEGORY_NOT_WORD, parser.CATEGORY_NOT_DIGIT)
"""Classes of characters that the end of a line is in."""

LINE_END = ord("\n")

SETTINGS = lazy_pattern(r"\(\?[aiLmsux]+\)")
"""The settings at the start of an expression, which count for all of it."""

REFERENCE = lazy_pattern(r"\\[1-9]|\(\?P=|\(\?\(")
"""What refers to a group, which may be in another alternative."""

TOKEN = lazy_pattern(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
"""A part of an expression that is not divided: an escaped character, a set of characters, or one character."""

MOST_WORDS = 24
"""Words that are looked for; more of them take as long as the expression."""

SHORTEST = 2
"""Characters of a word: a single one is nearly everywhere."""


def is_found(pattern: str | re.Pattern[str], text: str) -> bool:
    """Whether a regular expression finds something in a text.

    Each of its alternatives is searched for where one of its words is: in the lines that have it, if it stays in one.
    """
    return any(finds(part, text) for part in parts_of(pattern))


def parts_of(pattern: str | re.Pattern[str]) -> tuple[Part, ...]:
    """The alternatives of an expression; raises the error of one that is none."""
    return _parts(pattern, 0) if isinstance(pattern, str) else _parts(pattern.pattern, pattern.flags)


def finds(part: Part, text: str) -> bool:
    """Whether an alternative finds something in a text."""
    needed = part.needed
    if needed is None or not _counts_words(needed, text):
        return part.pattern.search(text) is not None
    if needed.is_within_line:
        return any(part.pattern.search(text, start, end) is not None for start, end in _lines_with(needed, text))
    searched = _lowered(text) if needed.ignores_case else text
    return any(word in searched for word in needed.words) and part.pattern.search(text) is not None


def is_found_by_line(part: Part, text: str) -> bool:
    """Whether an alternative finds something in a text exactly if it does in one of its lines."""
    needed = part.needed
    return needed is not None and needed.is_within_line and _counts_words(needed, text)


def lines_found(part: Part, text: str) -> list[int]:
    """Where the lines start in which such an alternative finds something, in order."""
    lines = set(_lines_with(part.needed, text)) if part.needed is not None else set[tuple[int, int]]()
    return sorted(start for start, end in lines if part.pattern.search(text, start, end) is not None)


def _counts_words(needed: Needed, text: str) -> bool:
    """Whether words can be looked for in a text; a long s is no capital, and matches `s` if case is ignored."""
    return not needed.ignores_case or text.isascii()


def _lines_with(needed: Needed, text: str) -> Iterator[tuple[int, int]]:
    """Where the lines of a text begin and end that have one of the words, word by word."""
    searched = _lowered(text) if needed.ignores_case else text
    return (line for word in needed.words for line in _lines_with_word(word, searched))


def _lines_with_word(word: str, text: str) -> Iterator[tuple[int, int]]:
    """Where the lines of a text begin and end that have a word."""
    at = text.find(word)
    while at >= 0:
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        yield text.rfind("\n", 0, at) + 1, end
        at = text.find(word, end)


@lru_cache(maxsize=1)
def _lowered(text: str) -> str:
    """A text in lower case, kept for the next expression: it takes as long as to look for a word."""
    return text.lower()


class Needed(NamedTuple):
    """The words of which a match contains one, whether their case counts for nothing, and whether it is in one line."""

    words: tuple[str, ...]
    ignores_case: bool
    is_within_line: bool


class Part(NamedTuple):
    """An alternative of an expression; without words that it needs it is searched for in the whole text."""

    pattern: re.Pattern[str]
    needed: Needed | None


@lru_cache(maxsize=4096)
def _parts(pattern: str, flags: int) -> tuple[Part, ...]:
    """The alternatives of an expression; raises the error of one that is none."""
    settings = SETTINGS.match(pattern)
    begin = settings.end() if settings else 0
    if flags & re.VERBOSE or "x" in pattern[:begin] or REFERENCE.search(pattern):
        return (Part(lazy_pattern(pattern, flags), _needed_by(pattern, flags)),)
    found = [pattern[:begin] + each for each in _split(pattern[begin:])]
    return tuple(Part(lazy_pattern(each, flags), _needed_by(each, flags)) for each in found)


def _split(pattern: str) -> list[str]:
    """The alternatives of an expression, divided where a bar is in no brackets."""
    depth, parts = 0, [""]
    for token in TOKEN.findall(pattern):
        depth += (token == "(") - (token == ")")
        if token == "|" and depth == 0:
            parts.append("")
        else:
            parts[-1] += token
    return parts


def _needed_by(pattern: str, flags: int) -> Needed | None:
    """What a match needs; None if it needs no certain words."""
    tree = parser.parse(pattern, flags)
    ignores_case = bool(tree.state.flags & re.IGNORECASE)
    words = _needed(tree)
    if words is None or (ignores_case and not all(map(str.isascii, words))):
        return None
    has_lines = bool(tree.state.flags & re.MULTILINE)
    is_within_line = not tree.state.flags & re.DOTALL and _stays_in_line(tree, has_lines)
    lower = tuple(dict.fromkeys(map(str.lower, words))) if ignores_case else words
    return Needed(lower, ignores_case, is_within_line)


def _stays_in_line(parts: Iterable[Any], has_lines: bool) -> bool:
    """Whether no part of an expression matches the end of a line, or asks where the text ends."""
    return all(_is_in_line(kind, value, has_lines) for kind, value in parts)


def _is_in_line(kind: Any, value: Any, has_lines: bool) -> bool:
    if kind in REPEATS:
        return _stays_in_line(value[2], has_lines)
    if kind in ASSERTIONS:
        return _stays_in_line(value[1], has_lines)
    if kind is parser.BRANCH:
        return all(_stays_in_line(each, has_lines) for each in value[1])
    if kind is parser.SUBPATTERN:
        return not value[1] and not value[2] and _stays_in_line(value[3], has_lines)  # without flags of its own
    if kind is parser.AT:
        return value in STARTS or (has_lines and value is parser.AT_END)
    if kind is parser.IN:
        is_negated = value[0][0] is parser.NEGATE
        return any(_holds_line_end(*each) for each in value) == is_negated
    if kind is parser.NOT_LITERAL:
        return bool(value == LINE_END)
    return kind is parser.ANY or (kind is parser.LITERAL and value != LINE_END)


def _holds_line_end(kind: Any, value: Any) -> bool:
    """Whether a part of a set of characters is, or contains, the end of a line."""
    if kind is parser.RANGE:
        return bool(value[0] <= LINE_END <= value[1])
    return value in SPACES if kind is parser.CATEGORY else kind is parser.LITERAL and value == LINE_END


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
