"""Lines and columns as editors count them, and edits made of them."""

from __future__ import annotations

from itertools import product

import pytest
from lsprotocol import types as lsp

from lintrain.server.open_text import OpenText
from lintrain.server.positions import Units, changed, line_edits, position, split_lines

ENDS = ("\n", "\r", "\r\n")
EMOJI = "x = '🙂é' + y"
"""The emoji takes 4 bytes, 2 code units or 1 character; the letter after it 2, 1 and 1."""


def between(start: tuple[int, int], end: tuple[int, int]) -> lsp.Range:
    return lsp.Range(start=lsp.Position(*start), end=lsp.Position(*end))


@pytest.mark.parametrize(("encoding", "column"), [("utf-8", 15), ("utf-16", 12), ("utf-32", 11)])
def test_a_column_behind_an_emoji_depends_on_the_encoding(encoding: str, column: int) -> None:
    units = Units(encoding)
    assert position([EMOJI], 1, 12, units) == lsp.Position(line=0, character=column)
    assert units.characters(EMOJI, column) == 11
    assert changed(EMOJI, between((0, column), (0, column + 1)), "z", units) == "x = '🙂é' + z"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_column_inside_an_emoji_means_its_start(encoding: str) -> None:
    assert Units(encoding).characters(EMOJI, 6) == 5


def test_lines_end_where_editors_end_them() -> None:
    assert split_lines("a\r\nb\rc\nd\x0ce\u2028f\x85g") == ["a", "b", "c", "d\x0ce\u2028f\x85g"]


def test_an_edit_below_a_form_feed_meets_its_line() -> None:
    text = "a\x0c\nb\u2028\nc\n"
    assert changed(text, between((2, 0), (2, 1)), "C", Units()) == "a\x0c\nb\u2028\nC\n"


@pytest.mark.parametrize("location", [((99, 0), (99, 5)), ((1, 99), (1, 99)), ((99, 99), (0, 99))])
def test_a_place_that_the_text_does_not_have_is_its_nearest(location: tuple[tuple[int, int], tuple[int, int]]) -> None:
    after = changed("ab\ncd", between(*location), "!", Units())
    assert after == ("ab!" if location[1] == (0, 99) else "ab\ncd!")


def test_a_change_without_a_place_is_the_whole_text() -> None:
    assert changed("old", None, "new", Units()) == "new"


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a\nb\nc\n", "a\nB\nc\n"),
        ("a\nb\nc\n", "a\nb\nc\nd\n"),
        ("a\nb\nc", "a\nb\nc\nd"),
        ("a\nb\nc", "b\nc"),
        ("a\nb\nc\n", "x\na\nc\ny\n"),
        ("a", ""),
        ("", "a\n"),
        ("a\nb", "a"),
        ("🙂\nb", "🙂\nc\nd"),
    ],
)
def test_edits_of_lines_give_the_other_text(before: str, after: str, newline: str) -> None:
    text = before.replace("\n", newline)
    for edit in reversed(line_edits(text, after, Units(), newline)):
        text = changed(text, edit.range, edit.new_text, Units())
    assert text == after.replace("\n", newline)


def test_edits_of_a_text_with_mixed_line_ends_give_the_lines_of_the_other() -> None:
    befores = ["".join(pieces) for pieces in product(("", "a"), ENDS, ("", "a"), ENDS, ("", "a", "b\n"))]
    afters = [lines for size in (1, 2, 3, 4) for lines in product(("", "a", "c"), repeat=size)]
    for before, lines in product(befores, afters):
        text, newline = before, OpenText("", 1, before).newline
        for edit in reversed(line_edits(before, "\n".join(lines), Units(), newline)):
            text = changed(text, edit.range, edit.new_text, Units())
        assert split_lines(text) == list(lines), (before, lines)


def test_edits_leave_lines_alone_that_stay() -> None:
    (edit,) = line_edits("a\nb\nc\nd\n", "a\nb\nX\nd\n", Units(), "\n")
    assert (edit.range, edit.new_text) == (between((2, 0), (3, 0)), "X\n")
