"""The benchmarks of fixes see what a fix breaks."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.accuracy.fixing import Mending, fix_one
from benchmarks.accuracy.mutants import FOLDER
from benchmarks.untouched import strays, strays_of_file
from lintrain.model.fixes import AddArgument, Fix, MoveAfter, RemoveArgument, Replace
from lintrain.model.location import Location
from lintrain.source.reading import read_bytes
from lintrain.source.source import Source
from tests.support.notebooks import notebook

TEXT = "a = 1  # one\nb = f(a)  # two\nc = 3\n"


def location_of(line: int, start: int, end: int) -> Location:
    return Location("t.py", line, start, line, end)


@pytest.mark.parametrize(
    ("after", "said"),
    [
        ("a = 1  # one\nb = g(a)  # two\nc = 3\n", []),
        ("a = 1  # one\nb = g(a)\nc = 3\n", ["a comment is lost: # two"]),
        ("a = 1  # one\nb = g(a)  # two\nc = 4\n", ["line 3 changed: c = 3"]),
        ("b = g(a)  # two\nc = 3\n", ["line 1 changed: a = 1  # one", "a comment is lost: # one"]),
    ],
)
def test_what_changes_beside_an_edit_is_named(after: str, said: list[str]) -> None:
    fix = Fix.of("call another", Replace(location_of(2, 5, 9), "g(a)"), safe=True)
    assert list(strays(Source("t.py", TEXT), fix, after)) == said


def test_a_new_argument_may_touch_the_end_of_its_call_alone() -> None:
    source = Source("t.py", "f(\n    a,\n    b,\n)\n")
    fix = Fix.of("add it", AddArgument(Location("t.py", 1, 1, 4, 2), "k", "1"), safe=True)
    assert not list(strays(source, fix, "f(\n    a,\n    b,\n    k=1,\n)\n"))
    assert list(strays(source, fix, "f(\n    c,\n    b,\n    k=1,\n)\n")) == ["line 2 changed: a,"]


def test_a_removed_argument_may_have_parentheses_around_its_value() -> None:
    source = Source("t.py", "f(\n    a=(\n        1\n    ),\n    b=2,\n)\n")
    fix = Fix.of("leave it out", RemoveArgument(Location("t.py", 1, 1, 6, 2), "a"), safe=True)
    assert not list(strays(source, fix, "f(\n    b=2,\n)\n"))


def test_a_removed_argument_takes_the_comment_on_its_line_along_and_no_other() -> None:
    source = Source("t.py", "f(\n    a=1,  # one\n    # above\n    b=2,  # two\n)\n")
    fix = Fix.of("leave it out", RemoveArgument(Location("t.py", 1, 1, 5, 2), "b"), safe=True)
    assert not list(strays(source, fix, "f(\n    a=1,  # one\n    # above\n)\n"))
    lost = {"a comment is lost: # one", "a comment is lost: # above"}
    assert lost <= set(strays(source, fix, "f(\n    a=1,\n)\n"))


def test_a_move_may_touch_what_it_passes() -> None:
    fix = Fix.of("move it", MoveAfter(location_of(1, 1, 6), location_of(2, 1, 9)), safe=True)
    assert not list(strays(Source("t.py", TEXT), fix, "b = f(a)  # two\na = 1  # one\nc = 3\n"))


def test_a_notebook_may_change_in_the_code_of_its_cells_only() -> None:
    text = notebook("a = 1", "#md words", "b = 2")
    source = read_bytes("n.ipynb", text.encode())
    assert not list(strays_of_file(source, text.replace("a = 1", "a = 3").encode()))
    other = text.replace("a = 1", "a = 3").replace('"nbformat": 4', '"nbformat": 5')
    assert other != text.replace("a = 1", "a = 3")
    assert list(strays_of_file(source, other.encode())) == ["more of the notebook changed than the code of its cells"]


def test_the_mutants_of_a_script_are_mended_and_looked_at() -> None:
    path = Path(FOLDER) / "scripts" / "loop" / "fresh_head.py"
    assert fix_one(path, ["missing-zero-grad"]) == [
        Mending("missing-zero-grad", "loop/fresh_head.py:forget_to_clear:0 (line 32)", "safe")
    ]
