"""Arguments and parameters come, change and go with their commas, lines and comments."""

from __future__ import annotations

import pytest

from lintrain.fix import FixError
from lintrain.model.fixes import AddArgument, AddParameter, RemoveArgument, RenameArgument, SetArgument
from lintrain.model.location import Location
from tests.support.mending import fixed, location_of


class TestAddArgument:
    @pytest.mark.parametrize(
        ("call", "expected"),
        [
            ("f()", "f(k=1)"),
            ("f( )", "f(k=1)"),
            ("f(a)", "f(a, k=1)"),
            ("f(a,)", "f(a, k=1,)"),
            ("f( a, b=2 )", "f( a, b=2, k=1 )"),
            ("f(a, **more)", "f(a, **more, k=1)"),
            ("f(x for x in y)", "f((x for x in y), k=1)"),
            ("f(a,\n  b)", "f(a,\n  b,\n  k=1)"),
            ("f(\n    a,\n    b,\n)", "f(\n    a,\n    b,\n    k=1,\n)"),
            ("f(\n    a,\n    b\n)", "f(\n    a,\n    b,\n    k=1\n)"),
            ("f(\n    a\n)", "f(\n    a,\n    k=1\n)"),
            ("f(\n    a, b\n)", "f(\n    a, b, k=1\n)"),
            ("f(\n    a,  # first\n)", "f(\n    a,  # first\n    k=1,\n)"),
            ("f(\n    a  # first\n)", "f(\n    a,  # first\n    k=1\n)"),
            ("f(\n    a,\n    # b=2,\n)", "f(\n    a,\n    # b=2,\n    k=1,\n)"),
            ("f(\n\ta,\n\tb,\n)", "f(\n\ta,\n\tb,\n\tk=1,\n)"),
        ],
    )
    def test_a_new_argument_follows_the_layout_of_the_others(self, call: str, expected: str) -> None:
        text = f"x = {call}\n"
        assert fixed(text, AddArgument(location_of(text, call), "k", "1")) == f"x = {expected}\n"

    def test_an_argument_that_is_there_stays_as_it_is(self) -> None:
        text = "f(k=2)\n"
        assert fixed(text, AddArgument(location_of(text, "f(k=2)"), "k", "1")) == text

    def test_the_same_edit_on_the_outcome_changes_nothing(self) -> None:
        text = "f(a).g(b)\n"
        edit = AddArgument(location_of(text, "f(a).g(b)"), "k", "1")
        once = fixed(text, edit)
        assert once == "f(a).g(b, k=1)\n"
        assert fixed(once, edit) == once

    def test_only_the_inner_of_two_nested_calls_changes(self) -> None:
        text = "f(g(a), h(b))\n"
        assert fixed(text, AddArgument(location_of(text, "g(a)"), "k", "1")) == "f(g(a, k=1), h(b))\n"

    def test_outer_and_inner_call_can_change_together(self) -> None:
        text = "f(g(a))\n"
        edits = AddArgument(location_of(text, "g(a)"), "k", "1"), AddArgument(location_of(text, "f(g(a))"), "m", "2")
        assert fixed(text, *edits) == "f(g(a, k=1), m=2)\n"

    def test_a_value_with_a_comma_of_its_own_comes_in_parentheses(self) -> None:
        text = "f(a)\n"
        assert fixed(text, AddArgument(location_of(text, "f(a)"), "k", "1, 2")) == "f(a, k=(1, 2))\n"

    def test_columns_count_characters_not_bytes(self) -> None:
        text = 's = "ünïcödé 🦊"; f(a)\n'
        assert fixed(text, AddArgument(location_of(text, "f(a)"), "k", "1")) == 's = "ünïcödé 🦊"; f(a, k=1)\n'

    def test_a_tab_is_one_character(self) -> None:
        text = "if x:\n\ty = 1; f(a)\n"
        assert fixed(text, AddArgument(location_of(text, "f(a)"), "k", "1")) == "if x:\n\ty = 1; f(a, k=1)\n"

    def test_windows_line_ends_stay(self) -> None:
        text = "f(\r\n    a,\r\n    b,\r\n)\r\n"
        location = Location("train.py", 1, 1, 4, 2)
        assert fixed(text, AddArgument(location, "k", "1")) == "f(\r\n    a,\r\n    b,\r\n    k=1,\r\n)\r\n"

    def test_a_decorator_is_a_call_like_others(self) -> None:
        text = "@f(a)\ndef g(): ...\n"
        assert fixed(text, AddArgument(location_of(text, "f(a)"), "k", "1")) == "@f(a, k=1)\ndef g(): ...\n"

    def test_a_place_without_a_call_is_an_error_that_names_it(self) -> None:
        with pytest.raises(FixError, match="there is no call at this location"):
            fixed("x = 1\n", AddArgument(Location("train.py", 1, 1, 1, 2), "k", "1"))

    def test_a_value_that_is_no_expression_is_an_error(self) -> None:
        text = "f(a)\n"
        with pytest.raises(FixError, match="is not an expression"):
            fixed(text, AddArgument(location_of(text, "f(a)"), "k", "1 +"))

    def test_a_byte_order_mark_stays_first(self) -> None:
        assert fixed("\ufefff(a)\n", AddArgument(Location("train.py", 1, 1, 1, 5), "k", "1")) == "\ufefff(a, k=1)\n"


class TestRenameArgument:
    def test_the_name_changes_and_the_value_stays(self) -> None:
        text = "f(a, old = b (1) , c=2)\n"
        edit = RenameArgument(location_of(text, text.strip()), "old", "new")
        assert fixed(text, edit) == "f(a, new = b (1) , c=2)\n"

    def test_a_new_value_comes_with_the_name(self) -> None:
        text = "f(\n    old=True,  # why\n)\n"
        edit = RenameArgument(location_of(text, text.strip()), "old", "new", '"yes"')
        assert fixed(text, edit) == 'f(\n    new="yes",  # why\n)\n'

    def test_the_same_edit_on_the_outcome_changes_nothing(self) -> None:
        text = "f(old=1)\n"
        edit = RenameArgument(location_of(text, "f(old=1)"), "old", "newer")
        assert fixed(fixed(text, edit), edit) == "f(newer=1)\n"

    def test_a_call_with_both_names_is_an_error(self) -> None:
        text = "f(old=1, new=2)\n"
        with pytest.raises(FixError, match="both `old` and `new`"):
            fixed(text, RenameArgument(location_of(text, text.strip()), "old", "new"))

    def test_a_call_without_the_name_is_an_error(self) -> None:
        text = "f(other=1)\n"
        with pytest.raises(FixError, match="no argument `old`"):
            fixed(text, RenameArgument(location_of(text, text.strip()), "old", "new"))


class TestRemoveArgument:
    @pytest.mark.parametrize(
        ("call", "expected"),
        [
            ("f(k=1)", "f()"),
            ("f(k=1, a=2)", "f(a=2)"),
            ("f(a, k=1)", "f(a)"),
            ("f(a, k=1,)", "f(a,)"),
            ("f(a, k=1, b=2)", "f(a, b=2)"),
            ("f(\n    k=1,\n)", "f()"),
            ("f(\n    a,\n    k=1,\n)", "f(\n    a,\n)"),
            ("f(\n    a,\n    k=1\n)", "f(\n    a\n)"),
            ("f(\n    k=1,\n    a=2,\n)", "f(\n    a=2,\n)"),
            ("f(a,\n  k=1)", "f(a)"),
            ("f(a,\n  k=1,\n  b=2)", "f(a,\n  b=2)"),
            ("f(\n    a,  # one\n    k=1,\n    b=2,  # two\n)", "f(\n    a,  # one\n    b=2,  # two\n)"),
        ],
    )
    def test_the_argument_goes_with_its_comma_and_its_line(self, call: str, expected: str) -> None:
        text = f"x = {call}\n"
        assert fixed(text, RemoveArgument(location_of(text, call), "k")) == f"x = {expected}\n"

    @pytest.mark.parametrize(
        ("call", "expected"),
        [
            ("f(\n    a,\n    k=1,  # why\n    b=2,\n)", "f(\n    a,\n    b=2,\n)"),
            ("f(\n    a,  # one\n    k=1,  # why\n)", "f(\n    a,  # one\n)"),
            ("f(\n    k=1,  # why\n    a=2,  # two\n)", "f(\n    a=2,  # two\n)"),
            ("f(\n    k=1,  # why\n)", "f()"),
            ("f(\n    a,\n    k=[\n        1,\n    ],  # why\n    b=2\n)", "f(\n    a,\n    b=2\n)"),
            ("f(a,\n  k=1)  # all", "f(a)  # all"),
        ],
    )
    def test_the_comment_on_its_line_goes_with_it(self, call: str, expected: str) -> None:
        text = f"x = {call}\n"
        assert fixed(text, RemoveArgument(location_of(text, call.partition("  # all")[0]), "k")) == f"x = {expected}\n"

    @pytest.mark.parametrize(
        ("call", "expected"),
        [
            ("f(\n    a,\n    # above\n    k=1\n)", "f(\n    a\n    # above\n)"),
            ("f(\n    # above\n    k=1,  # why\n    a=2,\n)", "f(\n    # above\n    a=2,\n)"),
            ("f(\n    k=1,  # why\n    # below\n    a=2,\n)", "f(\n    # below\n    a=2,\n)"),
            ("f(k=1,  # both\n  a=2)", "f(  # both\n  a=2)"),
            ("f(\n    a, k=1,  # both\n    b=2,\n)", "f(\n    a,  # both\n    b=2,\n)"),
        ],
    )
    def test_other_comments_stay(self, call: str, expected: str) -> None:
        text = f"x = {call}\n"
        assert fixed(text, RemoveArgument(location_of(text, call), "k")) == f"x = {expected}\n"

    def test_two_arguments_of_one_call_go_together(self) -> None:
        text = "f(a, k=1, m=2)\n"
        location = location_of(text, text.strip())
        assert fixed(text, RemoveArgument(location, "k"), RemoveArgument(location, "m")) == "f(a)\n"

    def test_the_same_edit_on_the_outcome_changes_nothing(self) -> None:
        text = "f(a, k=1)\n"
        edit = RemoveArgument(location_of(text, "f(a, k=1)"), "k")
        assert fixed(fixed(text, edit), edit) == "f(a)\n"


class TestAddParameter:
    @pytest.mark.parametrize(
        ("head", "expected"),
        [
            ("def f(a): ...", "def f(a, k=None): ..."),
            ("def f(a, b=1, **more): ...", "def f(a, b=1, k=None, **more): ..."),
            ("def f(a, *, c): ...", "def f(a, k=None, *, c): ..."),
            ("def f(\n    a,\n    b,\n): ...", "def f(\n    a,\n    b,\n    k=None,\n): ..."),
            ("def f(a,\n      b): ...", "def f(a,\n      b,\n      k=None): ..."),
            ("def f(\n    a,  # one\n    b\n): ...", "def f(\n    a,  # one\n    b,\n    k=None\n): ..."),
            ("def f(a, k=2): ...", "def f(a, k=2): ..."),
        ],
    )
    def test_a_new_parameter_follows_the_plain_ones(self, head: str, expected: str) -> None:
        text = f"{head}\n"
        once = fixed(text, AddParameter(location_of(text, "def f("), "k", "None"))
        assert once == f"{expected}\n"
        assert fixed(once, AddParameter(location_of(once, "def f("), "k", "None")) == once


class TestSetArgument:
    @pytest.mark.parametrize(
        ("text", "place", "after"),
        [
            ("f(old=1, other=2)\n", "old=1", "f(old=3, other=2)\n"),
            ("f(1, other=2)\n", "1", "f(3, other=2)\n"),
            ("a.b.old = 1  # why\n", "a.b.old", "a.b.old = 3  # why\n"),
            ("class A(B):\n    old: int = 1\n", "old: int = 1", "class A(B):\n    old: int = 3\n"),
            (
                "class A(B):\n    old: int = field(default=1, metadata=m)\n",
                "old: int = field(default=1, metadata=m)",
                "class A(B):\n    old: int = field(default=3, metadata=m)\n",
            ),
        ],
    )
    def test_a_value_is_replaced_where_it_is_set(self, text: str, place: str, after: str) -> None:
        assert fixed(text, SetArgument(location_of(text, place), "old", "3")) == after

    @pytest.mark.parametrize(
        ("text", "place", "after"),
        [
            ("f(old=1)\n", "old=1", "f(new=3)\n"),
            ("a.old = 1\n", "a.old", "a.new = 3\n"),
            ("class A(B):\n    old: int = 1\n", "old: int = 1", "class A(B):\n    new: int = 3\n"),
        ],
    )
    def test_a_new_name_replaces_the_old_one(self, text: str, place: str, after: str) -> None:
        assert fixed(text, SetArgument(location_of(text, place), "new", "3")) == after

    def test_a_location_that_sets_nothing_is_an_error(self) -> None:
        with pytest.raises(FixError):
            fixed("import a\n", SetArgument(location_of("import a\n", "import a"), "old", "3"))
