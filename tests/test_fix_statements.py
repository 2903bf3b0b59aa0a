"""Statements are put before and after others, wrapped, and moved."""

from __future__ import annotations

import pytest

from lintrain.fix import FixError, apply
from lintrain.model.fixes import (
    Fix,
    InsertAfter,
    InsertAtTop,
    InsertBefore,
    MoveAfter,
    MoveBefore,
    WrapBody,
    WrapInWith,
)
from lintrain.model.location import Location
from tests.support.mending import fixed, location_of


class TestInsertBefore:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("for b in l:\n    # learn\n    go()\n", "for b in l:\n    new()\n    # learn\n    go()\n"),
            ("a = 1\n\ngo()  # why\n", "a = 1\n\nnew()\ngo()  # why\n"),
            ("for b in l: go()\n", "for b in l:\n    new()\n    go()\n"),
            ("for b in l: a(); go()  # why\n", "for b in l:\n    a()\n    new()\n    go()  # why\n"),
            ("a = 1; go()\n", "a = 1; new(); go()\n"),
            ("if a:\n    pass\nelif go():\n    pass\n", "new()\nif a:\n    pass\nelif go():\n    pass\n"),
            ("@d(go())\ndef f(): ...\n", "new()\n@d(go())\ndef f(): ...\n"),
            ("x = [\n    go(),\n]\n", "new()\nx = [\n    go(),\n]\n"),
            ("if a:\n\tgo()\n", "if a:\n\tnew()\n\tgo()\n"),
        ],
    )
    def test_the_statement_stands_before_the_one_that_holds_the_place(self, text: str, expected: str) -> None:
        assert fixed(text, InsertBefore(location_of(text, "go()"), "new()")) == expected

    def test_a_compound_statement_takes_the_indentation_of_the_file(self) -> None:
        text = "if a:\n  go()\n"
        inserted = fixed(text, InsertBefore(location_of(text, "go()"), "if b:\n    new()"))
        assert inserted == "if a:\n  if b:\n    new()\n  go()\n"

    def test_the_same_edit_on_the_outcome_changes_nothing(self) -> None:
        text = "for b in l:\n    loss.backward()\n"
        edit = InsertBefore(location_of(text, "loss.backward()"), "optimizer.zero_grad()")
        once = fixed(text, edit)
        assert fixed(once, edit) == once

    def test_two_statements_before_the_same_one_keep_their_order(self) -> None:
        text = "go()\n"
        location = location_of(text, "go()")
        assert fixed(text, InsertBefore(location, "a()"), InsertBefore(location, "b()")) == "a()\nb()\ngo()\n"

    def test_a_compound_statement_between_two_on_a_line_is_an_error(self) -> None:
        text = "a = 1; go()\n"
        with pytest.raises(FixError, match="cannot be between"):
            fixed(text, InsertBefore(location_of(text, "go()"), "if b: new()"))

    def test_the_first_statement_of_a_cell_gets_it_in_its_cell(self) -> None:
        text = "show\n# old = 1\n\n# %% cell 2\n# the model\nmodel = make()\n"
        edit = InsertBefore(location_of(text, "model = make()"), "seed(0)")
        assert fixed(text, edit) == "show\n# old = 1\n\n# %% cell 2\nseed(0)\n# the model\nmodel = make()\n"


class TestInsertAfter:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (
                "for b in l:\n    go()  # why\n    # then\n    a()\n",
                "for b in l:\n    go()  # why\n    new()\n    # then\n    a()\n",
            ),
            ("for b in l:\n    go()\n\na()\n", "for b in l:\n    go()\n    new()\n\na()\n"),
            ("for b in l: go()\n", "for b in l:\n    go()\n    new()\n"),
            ("for b in l: go(); a()  # why\n", "for b in l:\n    go()\n    new()\n    a()  # why\n"),
            ("go(); a()\n", "go(); new(); a()\n"),
            ("a = 1; go();  # why\n", "a = 1; go(); new();  # why\n"),
            ("if a:\n    pass\nelif go():\n    pass\n", "if a:\n    pass\nelif go():\n    pass\nnew()\n"),
            ("with go():\n    a()\nb()\n", "with go():\n    a()\nnew()\nb()\n"),
            ("@d(go())\ndef f(): ...\n", "@d(go())\ndef f(): ...\nnew()\n"),
            ("x = [\n    go(),\n]\n", "x = [\n    go(),\n]\nnew()\n"),
            ("if a:\n\tgo()\n", "if a:\n\tgo()\n\tnew()\n"),
            ("go()", "go()\nnew()"),
        ],
    )
    def test_the_statement_stands_after_the_one_that_holds_the_place(self, text: str, expected: str) -> None:
        edit = InsertAfter(location_of(text, "go()"), "new()")
        assert fixed(text, edit) == expected
        assert (
            apply(expected, [Fix.of("again", InsertAfter(location_of(expected, "go()"), "new()"), safe=True)])
            == expected
        )

    def test_two_statements_after_the_same_one_keep_their_order(self) -> None:
        text = "go()\n"
        location = location_of(text, "go()")
        assert fixed(text, InsertAfter(location, "a()"), InsertAfter(location, "b()")) == "go()\na()\nb()\n"

    def test_a_statement_can_come_before_and_another_after(self) -> None:
        text = "go()\n"
        location = location_of(text, "go()")
        edits = InsertAfter(location, "b()"), InsertBefore(location, "a()"), WrapInWith(location, "held()")
        assert fixed(text, *edits) == "a()\nwith held():\n    go()\nb()\n"

    @pytest.mark.parametrize("text", ["return go()", "raise go()", "a = 1; return go()"])
    def test_a_place_that_leaves_the_block_is_an_error(self, text: str) -> None:
        text = f"def f():\n    {text}\n"
        with pytest.raises(FixError, match="nothing after this statement would run"):
            fixed(text, InsertAfter(location_of(text, "go()"), "new()"))


class TestInsertAtTop:
    @pytest.mark.parametrize(
        ("text", "at", "expected"),
        [
            ("for b in l:\n    # first\n    go()\n", "for b in l", "for b in l:\n    new()\n    # first\n    go()\n"),
            ("for b in l: go()\n", "for b in l: go()", "for b in l:\n    new()\n    go()\n"),
            ('def f():\n    "doc"\n    go()\n', "def f", 'def f():\n    "doc"\n    new()\n    go()\n'),
            ("for b in l:\n    go()\n", "go()", "for b in l:\n    new()\n    go()\n"),
        ],
    )
    def test_the_statement_stands_first_in_the_body(self, text: str, at: str, expected: str) -> None:
        once = fixed(text, InsertAtTop(location_of(text, at), "new()"))
        assert once == expected
        assert fixed(once, InsertAtTop(location_of(once, text.split("\n")[0][:9]), "new()")) == once

    def test_a_place_outside_any_body_is_an_error(self) -> None:
        with pytest.raises(FixError, match="no compound statement"):
            fixed("go()\n", InsertAtTop(Location("train.py", 1, 1, 1, 3), "new()"))


class TestWrapInWith:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("go()\n", "with torch.no_grad():\n    go()\n"),
            ("for b in l: go()\n", "for b in l:\n    with torch.no_grad():\n        go()\n"),
            ("# above\nx = go()  # why\n", "# above\nwith torch.no_grad():\n    x = go()  # why\n"),
            ("x = f(go(),\n  '''a\n b''')\n", "with torch.no_grad():\n    x = f(go(),\n      '''a\n b''')\n"),
        ],
    )
    def test_the_statement_stands_inside_a_with(self, text: str, expected: str) -> None:
        once = fixed(text, WrapInWith(location_of(text, "go()"), "torch.no_grad()"))
        assert once == expected
        assert fixed(once, WrapInWith(location_of(once, "go()"), "torch.no_grad()")) == once

    def test_statements_already_inside_the_with_stay(self) -> None:
        text = "with torch.no_grad():\n    for b in l:\n        go()\n"
        assert fixed(text, WrapInWith(location_of(text, "go()"), "torch.no_grad()")) == text

    def test_a_loop_is_wrapped_whole(self) -> None:
        text = "for b in l:\n    go()\n"
        wrapped = fixed(text, WrapInWith(location_of(text, text.strip()), "torch.no_grad()"))
        assert wrapped == "with torch.no_grad():\n    for b in l:\n        go()\n"


class TestWrapBody:
    def test_the_whole_body_goes_in_and_only_once(self) -> None:
        text = "for x in y:  # all\n    # one\n    a(x)\n\n    b(x)\n    # last\nc()\n"
        once = fixed(text, WrapBody(location_of(text, "for"), "held(net)"))
        assert once == (
            "for x in y:  # all\n    with held(net):\n        # one\n        a(x)\n\n        b(x)\n"
            "        # last\nc()\n"
        )
        assert fixed(once, WrapBody(location_of(once, "for"), "held(net)")) == once

    def test_a_body_on_the_line_of_its_loop_gets_lines_of_its_own(self) -> None:
        text = "for x in y: a(x)\n"
        assert fixed(text, WrapBody(location_of(text, "for"), "held()")) == (
            "for x in y:\n    with held():\n        a(x)\n"
        )


class TestMoves:
    def test_a_statement_goes_before_another_with_its_comments(self) -> None:
        text = "a()\n\n# the net\nnet = f(\n    1,\n)\n\n# for all\nseed(0)  # here\nb()\n"
        edit = MoveBefore(location_of(text, "seed(0)"), location_of(text, "net = f("))
        once = fixed(text, edit)
        assert once == "a()\n\n# for all\nseed(0)  # here\n# the net\nnet = f(\n    1,\n)\nb()\n"
        again = MoveBefore(location_of(once, "seed(0)"), location_of(once, "net = f("))
        assert fixed(once, again) == once

    def test_a_statement_goes_after_another(self) -> None:
        text = "def main():\n    opt = g(net)\n\n    net = f()\n    for x in y:\n        z\n"
        edit = MoveAfter(location_of(text, "g(net)"), location_of(text, "f()"))
        assert fixed(text, edit) == "def main():\n\n    net = f()\n    opt = g(net)\n    for x in y:\n        z\n"

    @pytest.mark.parametrize("text", ["if x:\n    a()\nb()\n", "a(); b()\n", "b()\nif x: a()\n"])
    def test_no_statement_leaves_its_block_or_its_line(self, text: str) -> None:
        with pytest.raises(FixError, match="within its block"):
            fixed(text, MoveAfter(location_of(text, "a()"), location_of(text, "b()")))

    def test_the_first_statement_of_a_cell_stays_in_it(self) -> None:
        text = "make()\n# %% cell 2\nseed(0)\ntrain()\n"
        with pytest.raises(FixError, match="first statement of a cell"):
            fixed(text, MoveBefore(location_of(text, "seed(0)"), location_of(text, "make()")))

    def test_the_target_may_be_the_first_statement_of_a_cell(self) -> None:
        text = "show\n# %% cell 2\nmake()\n# once\nseed(0)\n"
        edit = MoveBefore(location_of(text, "seed(0)"), location_of(text, "make()"))
        assert fixed(text, edit) == "show\n# %% cell 2\n# once\nseed(0)\nmake()\n"
