"""Fixes change the code at their place and nothing else."""

from __future__ import annotations

import pytest

from lintrain.fix import FixError, apply
from lintrain.model.fixes import AddArgument, AddImport, Fix, InsertBefore, RemoveArgument, Replace, WrapInWith
from lintrain.model.location import Location
from tests.support.mending import fixed, location_of


class TestReplace:
    @pytest.mark.parametrize(
        ("text", "old", "new", "expected"),
        [
            ("f(a, train=raw['x'])\n", "raw['x']", "done['x']", "f(a, train=done['x'])\n"),
            ("x = (a)\n", "a", "b", "x = (b)\n"),
            ("x = (1, 2)\n", "(1, 2)", "y", "x = y\n"),
            ("x = y.z\n", "y", "a + b", "x = (a + b).z\n"),
            ("x = y * 2\n", "y", "a + b", "x = (a + b) * 2\n"),
            ("f(y)\n", "y", "a + b", "f(a + b)\n"),
            ("f(y)\n", "y", "a, b", "f((a, b))\n"),
            ("f(k=1, a=2)\n", "k=1", "m=2", "f(m=2, a=2)\n"),
            ("f(k=1, a=2)\n", "k=1", "m", "f(m, a=2)\n"),
            ("f(*a, b)\n", "*a", "c", "f(c, b)\n"),
            ("x = 1  # why\ny = 2\n", "x = 1", "x = 3", "x = 3  # why\ny = 2\n"),
            ("if a:\n    # above\n    x = 1\n", "x = 1", "y = 1\nz = 2", "if a:\n    # above\n    y = 1\n    z = 2\n"),
            ("if a:\n    x = 1\n", "x = 1", "", "if a:\n    pass\n"),
            ("x = 1\ny = 2\n", "x = 1", "", "y = 2\n"),
            ("loss.item()\n", "loss.item()", "loss", "loss\n"),
            ("x = 'é' + \\\n    old\n", "old", "new", "x = 'é' + \\\n    new\n"),
        ],
    )
    def test_other_code_stands_at_the_place(self, text: str, old: str, new: str, expected: str) -> None:
        assert fixed(text, Replace(location_of(text, old), new)) == expected

    def test_the_same_edit_on_the_outcome_changes_nothing(self) -> None:
        text = 'f(raw["train"])\n'
        edit = Replace(location_of(text, 'raw["train"]'), 'tokenized_datasets["train"]')
        once = fixed(text, edit)
        assert once == 'f(tokenized_datasets["train"])\n'
        assert fixed(once, edit) == once

    def test_a_place_that_cuts_code_is_an_error(self) -> None:
        with pytest.raises(FixError, match="no complete expression"):
            fixed("abc = 1\n", Replace(Location("train.py", 1, 2, 1, 3), "x"))

    @pytest.mark.parametrize(
        ("text", "old", "new"),
        [("import a\n", "a", "b + 1"), ("import a\n", "a", "b()"), ("x = 'a' 'b'\n", "'a'", "c")],
    )
    def test_code_that_does_not_fit_where_it_is_put_is_an_error(self, text: str, old: str, new: str) -> None:
        with pytest.raises(FixError, match="the code cannot be inserted there"):
            fixed(
                text,
                Replace(Location("train.py", 1, text.index(old, 2) + 1, 1, text.index(old, 2) + 1 + len(old)), new),
            )

    def test_an_outcome_that_would_not_parse_is_an_error(self) -> None:
        text = "x = 1\n"
        with pytest.raises(FixError, match="does not parse"):
            fixed(text, Replace(location_of(text, "x"), "f()"))


class TestSeveralFixes:
    def test_of_two_that_overlap_the_first_wins(self) -> None:
        text = "f(g(a))\n"
        outer = Fix.of("outer", Replace(location_of(text, "g(a)"), "b"), safe=True)
        inner = Fix.of("inner", AddArgument(location_of(text, "g(a)"), "k", "1"), safe=True)
        assert apply(text, [outer, inner]) == "f(b)\n"
        assert apply(text, [inner, outer]) == "f(g(a, k=1))\n"

    def test_a_fix_is_left_out_whole(self) -> None:
        text = "f(a)\ng(b)\n"
        first = Fix.of("first", Replace(location_of(text, "a"), "c"), safe=True)
        second = Fix.of("second", Replace(location_of(text, "f(a)"), "h()"), AddImport("torch"), safe=True)
        assert apply(text, [first, second]) == "f(c)\ng(b)\n"

    def test_the_same_edit_of_two_fixes_is_made_once(self) -> None:
        text = "f(a)\n"
        edit = AddArgument(location_of(text, "f(a)"), "k", "1")
        assert apply(text, [Fix.of("one", edit, safe=True), Fix.of("other", edit, safe=True)]) == "f(a, k=1)\n"

    def test_different_values_for_one_new_argument_exclude_each_other(self) -> None:
        text = "f(a)\n"
        location = location_of(text, "f(a)")
        fixes = [Fix.of(value, AddArgument(location, "k", value), safe=True) for value in ("1", "2")]
        assert apply(text, fixes) == "f(a, k=1)\n"

    def test_fixes_at_different_places_are_all_made(self) -> None:
        text = "for b in l:\n    f(a, k=1)\n"
        location = location_of(text, "f(a, k=1)")
        fixes = [
            Fix.of("one", RemoveArgument(location, "k"), safe=True),
            Fix.of("two", Replace(location_of(text, "a"), "c"), safe=True),
            Fix.of("three", InsertBefore(location, "new()"), WrapInWith(location, "held()"), safe=True),
        ]
        assert apply(text, fixes) == "for b in l:\n    new()\n    with held():\n        f(c)\n"

    def test_one_fix_that_changes_the_same_code_twice_is_an_error(self) -> None:
        text = "f(a)\n"
        with pytest.raises(FixError, match="`mend it` changes the same code twice"):
            fixed(text, Replace(location_of(text, "a"), "b"), Replace(location_of(text, "f(a)"), "g()"))

    def test_no_fix_leaves_the_text_alone(self) -> None:
        assert apply("not python (", []) == "not python ("

    def test_a_text_that_is_no_python_is_an_error_with_its_line(self) -> None:
        with pytest.raises(FixError, match="line 2"):
            fixed("x = 1\ny = (\n", AddImport("torch"))

    def test_odd_but_legal_escapes_are_no_concern(self) -> None:
        assert fixed('x = "\\d"\n', AddImport("re")) == 'import re\n\nx = "\\d"\n'
