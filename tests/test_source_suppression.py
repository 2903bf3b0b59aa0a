"""Comments that ask for silence."""

from __future__ import annotations

import pytest

from lintrain.model.location import Location
from lintrain.source.source import Source
from lintrain.source.suppression import Suppression


def only(text: str) -> Suppression:
    (suppression,) = Source("t.py", text).suppressions
    return suppression


def at(line: int, end_line: int | None = None) -> Location:
    return Location("t.py", line, 1, end_line or line, 2)


@pytest.mark.parametrize(
    "comment",
    [
        "# lintrain: ignore[raw-dataset]",
        "#lintrain:ignore[raw-dataset]",
        "# lintrain: ignore[raw-dataset] -- the collator tokenizes [sic]",
        "# lintrain: ignore[ missing-labels , raw-dataset ]",
        "# noqa: E501  # lintrain: ignore[raw-dataset]  # type: ignore",
    ],
)
def test_a_comment_silences_the_rule_it_names_on_its_line(comment: str) -> None:
    suppression = only(f"x = 1\ny = 2  {comment}\n")
    assert suppression.covers("raw-dataset", at(2))
    assert not suppression.covers("raw-dataset", at(1))
    assert not suppression.covers("high-learning-rate", at(2))


def test_a_comment_without_brackets_silences_every_rule() -> None:
    assert only("y = 2  # lintrain: ignore -- reason\n").covers("whatever", at(1))


def test_a_comment_on_the_last_line_of_an_expression_counts() -> None:
    suppression = only("f(\n  1,\n)  # lintrain: ignore[raw-dataset]\n")
    assert suppression.covers("raw-dataset", at(1, 3))
    assert not suppression.covers("raw-dataset", at(1, 2))


def test_a_comment_on_a_line_of_its_own_speaks_of_the_next_code() -> None:
    suppression = only("x = 1\n# lintrain: ignore[raw-dataset]\n# and why\n\ny = 2\n")
    assert suppression.covers("raw-dataset", at(5))
    assert not suppression.covers("raw-dataset", at(1))


def test_ignore_file_above_the_code_silences_the_whole_file() -> None:
    suppression = only("#!/usr/bin/env python\n# lintrain: ignore-file[raw-dataset] -- generated\nx = 1\n")
    assert suppression.covers("raw-dataset", at(3))
    assert not suppression.covers("missing-labels", at(3))


def test_ignore_file_below_code_is_a_flaw_and_silences_nothing() -> None:
    suppression = only("x = 1\n# lintrain: ignore-file\n")
    assert suppression.flaw
    assert not suppression.covers("raw-dataset", at(1))


@pytest.mark.parametrize("words", ["ignore raw-dataset", "disable=raw-dataset", "ignore[raw-dataset", "ignore[]", ""])
def test_a_comment_that_is_not_understood_is_a_flaw_and_silences_nothing(words: str) -> None:
    suppression = only(f"x = 1  # lintrain: {words}\n")
    assert suppression.flaw
    assert not suppression.covers("raw-dataset", at(1))


def test_a_string_that_looks_like_a_comment_is_none() -> None:
    assert Source("t.py", 'x = "# lintrain: ignore"\n').suppressions == ()


def test_comments_above_a_broken_line_still_count() -> None:
    assert only("# lintrain: ignore-file[raw-dataset]\nx = (\n").covers("raw-dataset", at(2))


@pytest.mark.parametrize("words", ["ignore-file", "ignore-file[syntax-error, unreadable-file]"])
@pytest.mark.parametrize("rule", ["syntax-error", "unreadable-file"])
def test_no_comment_silences_what_leaves_a_file_unchecked(words: str, rule: str) -> None:
    assert not only(f"# lintrain: {words}\nx = (\n").covers(rule, at(2))


def test_the_place_of_a_suppression_is_the_comment_without_its_reason() -> None:
    source = Source("t.py", "x = 1  # lintrain: ignore[raw-dataset] -- why\n")
    assert source.code(source.suppressions[0].location) == "# lintrain: ignore[raw-dataset]"
