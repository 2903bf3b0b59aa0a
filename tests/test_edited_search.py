"""Expressions searched for in an edited text: the answer is that of a search in the whole text."""

from __future__ import annotations

import random
import re

import pytest

from lintrain.source.latest_search import LatestSearch, change_of
from lintrain.source.latest_tree import LatestTree
from lintrain.source.literals import finds, is_found, parts_of
from lintrain.source.source import Source
from tests.test_reparsing import SCRIPTS

PATTERNS: list[str | re.Pattern[str]] = [
    r"^import torch",
    r"(?m)^import torch",
    r"(?m)^\s*return$",
    r"(?<!\w)loss\b",
    r"(?i)\bLOADER\b|\.TO\(",
    r"\.backward\(|\.step\(",
    r"model\s*=\s*[\w.]+\(",
    r"optimizer[^\n]*step",
    r"loss\.\w+\(\)\s+optimizer",
    r"lr=(?=1)",
    r"# typed(?!,)",
    re.compile(r"best_\w+|Ends", re.IGNORECASE),
    r"\w+\s*\n",
]
TYPED = [
    "",
    "\n",
    "loss",
    "import torch\n",
    "\nimport torch",
    ".backward()",
    "lr=1",
    "return",
    "\u017f",
    "\n\n",
    "# typed",
    "\r",
]


def test_any_edits_of_any_scripts_are_answered_as_the_whole_text_is() -> None:
    chance = random.Random(3)
    for path in chance.sample(SCRIPTS, 20):
        search, text = LatestSearch(), path.read_text()
        for _ in range(60):
            start = chance.choice([0, len(text), chance.randrange(len(text) + 1)])
            after = (
                text[:start] + chance.choice(TYPED) + text[min(len(text), start + chance.choice([0, 0, 1, 9, 60])) :]
            )
            for pattern in chance.sample(PATTERNS, chance.choice([0, 9])):
                assert search.contains(pattern, after) == is_found(pattern, after), (path, start, pattern)
            if chance.random() < 0.7:
                assert search.words(after) == frozenset(re.findall(r"(?a)\w+", after)), (path, start)
            text = after if chance.random() < 0.5 else text


@pytest.mark.parametrize(
    ("old", "new", "begin", "end", "typed"),
    [
        ("a\nb\nc", "a\nB\nc", 2, 4, "B\n"),
        ("a\nb\nc", "a\nb\nx\nc", 4, 4, "x\n"),
        ("a\nb\nc", "a\nc", 2, 4, ""),
        ("a\nb", "x\na\nb", 0, 2, "x\na\n"),
        ("a\nb\nc", "b\nc", 0, 4, "b\n"),
        ("a\nb\nc", "a\nb\nc\n", 6, 6, "\n"),
    ],
)
def test_the_lines_of_an_edit_and_a_first_line_that_moves(old: str, new: str, begin: int, end: int, typed: str) -> None:
    change = change_of(old, new)
    assert (change.begin, change.end, change.typed) == (begin, end, typed)


def test_only_the_lines_of_an_edit_are_searched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    searched = list[str]()

    def noted(part: object, text: str) -> list[int]:
        searched.append(text)
        return [0] if "loss" in text else []

    monkeypatch.setattr("lintrain.source.latest_search.lines_found", noted)
    latest, found = LatestTree(), list[bool]()
    for text in ("loss = 1\nx = 2\n", "loss = 1\nx = 23\n", "x = 1\nx = 23\n", "x = 1\nloss = 3\n"):
        with latest.serving("a.py"):
            found.append(Source("a.py", text).contains(r"\bloss\b"))
    assert found == [True, True, False, True]
    assert searched == ["loss = 1\nx = 2\n"]


def test_each_alternative_is_found_by_itself() -> None:
    one, other = parts_of(r"loss|\bstep\(")
    assert (finds(one, "a loss"), finds(other, "a loss")) == (True, False)
