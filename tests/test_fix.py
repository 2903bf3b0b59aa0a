"""Fixes change the code at their place and nothing else."""

from __future__ import annotations

import pytest

from lintrain.core.fix import (
    AddArgument,
    AddImport,
    AddParameter,
    Edit,
    Fix,
    InsertAfter,
    InsertAtTop,
    InsertBefore,
    MoveAfter,
    MoveBefore,
    RemoveArgument,
    RemoveImport,
    RenameArgument,
    Replace,
    WrapBody,
    WrapInWith,
)
from lintrain.core.place import Place
from lintrain.fix import FixError, apply


def place_of(text: str, code: str) -> Place:
    """The place of the only occurrence of some code, found without the help of a parser."""
    assert text.count(code) == 1, f"{code!r} occurs {text.count(code)} times"
    start = text.index(code)
    return Place("train.py", *_position(text, start), *_position(text, start + len(code)))


def _position(text: str, offset: int) -> tuple[int, int]:
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def fixed(text: str, *edits: Edit) -> str:
    return apply(text, [Fix.of("mend it", *edits, safe=True)])


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
        assert fixed(text, AddArgument(place_of(text, call), "k", "1")) == f"x = {expected}\n"

    def test_an_argument_that_is_there_stays_as_it_is(self) -> None:
        text = "f(k=2)\n"
        assert fixed(text, AddArgument(place_of(text, "f(k=2)"), "k", "1")) == text

    def test_the_same_edit_on_the_outcome_changes_nothing(self) -> None:
        text = "f(a).g(b)\n"
        edit = AddArgument(place_of(text, "f(a).g(b)"), "k", "1")
        once = fixed(text, edit)
        assert once == "f(a).g(b, k=1)\n"
        assert fixed(once, edit) == once

    def test_only_the_inner_of_two_nested_calls_changes(self) -> None:
        text = "f(g(a), h(b))\n"
        assert fixed(text, AddArgument(place_of(text, "g(a)"), "k", "1")) == "f(g(a, k=1), h(b))\n"

    def test_outer_and_inner_call_can_change_together(self) -> None:
        text = "f(g(a))\n"
        edits = AddArgument(place_of(text, "g(a)"), "k", "1"), AddArgument(place_of(text, "f(g(a))"), "m", "2")
        assert fixed(text, *edits) == "f(g(a, k=1), m=2)\n"

    def test_a_value_with_a_comma_of_its_own_comes_in_parentheses(self) -> None:
        text = "f(a)\n"
        assert fixed(text, AddArgument(place_of(text, "f(a)"), "k", "1, 2")) == "f(a, k=(1, 2))\n"

    def test_columns_count_characters_not_bytes(self) -> None:
        text = 's = "ünïcödé 🦊"; f(a)\n'
        assert fixed(text, AddArgument(place_of(text, "f(a)"), "k", "1")) == 's = "ünïcödé 🦊"; f(a, k=1)\n'

    def test_a_tab_is_one_character(self) -> None:
        text = "if x:\n\ty = 1; f(a)\n"
        assert fixed(text, AddArgument(place_of(text, "f(a)"), "k", "1")) == "if x:\n\ty = 1; f(a, k=1)\n"

    def test_windows_line_ends_stay(self) -> None:
        text = "f(\r\n    a,\r\n    b,\r\n)\r\n"
        place = Place("train.py", 1, 1, 4, 2)
        assert fixed(text, AddArgument(place, "k", "1")) == "f(\r\n    a,\r\n    b,\r\n    k=1,\r\n)\r\n"

    def test_a_decorator_is_a_call_like_others(self) -> None:
        text = "@f(a)\ndef g(): ...\n"
        assert fixed(text, AddArgument(place_of(text, "f(a)"), "k", "1")) == "@f(a, k=1)\ndef g(): ...\n"

    def test_a_place_without_a_call_is_an_error_that_names_it(self) -> None:
        with pytest.raises(FixError, match="no call stands here"):
            fixed("x = 1\n", AddArgument(Place("train.py", 1, 1, 1, 2), "k", "1"))

    def test_a_value_that_is_no_expression_is_an_error(self) -> None:
        text = "f(a)\n"
        with pytest.raises(FixError, match="is no expression"):
            fixed(text, AddArgument(place_of(text, "f(a)"), "k", "1 +"))

    def test_a_byte_order_mark_stays_first(self) -> None:
        assert fixed("\ufefff(a)\n", AddArgument(Place("train.py", 1, 1, 1, 5), "k", "1")) == "\ufefff(a, k=1)\n"


class TestRenameArgument:
    def test_the_name_changes_and_the_value_stays(self) -> None:
        text = "f(a, old = b (1) , c=2)\n"
        edit = RenameArgument(place_of(text, text.strip()), "old", "new")
        assert fixed(text, edit) == "f(a, new = b (1) , c=2)\n"

    def test_a_new_value_comes_with_the_name(self) -> None:
        text = "f(\n    old=True,  # why\n)\n"
        edit = RenameArgument(place_of(text, text.strip()), "old", "new", '"yes"')
        assert fixed(text, edit) == 'f(\n    new="yes",  # why\n)\n'

    def test_the_same_edit_on_the_outcome_changes_nothing(self) -> None:
        text = "f(old=1)\n"
        edit = RenameArgument(place_of(text, "f(old=1)"), "old", "newer")
        assert fixed(fixed(text, edit), edit) == "f(newer=1)\n"

    def test_a_call_with_both_names_is_an_error(self) -> None:
        text = "f(old=1, new=2)\n"
        with pytest.raises(FixError, match="both `old` and `new`"):
            fixed(text, RenameArgument(place_of(text, text.strip()), "old", "new"))

    def test_a_call_without_the_name_is_an_error(self) -> None:
        text = "f(other=1)\n"
        with pytest.raises(FixError, match="no argument `old`"):
            fixed(text, RenameArgument(place_of(text, text.strip()), "old", "new"))


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
        assert fixed(text, RemoveArgument(place_of(text, call), "k")) == f"x = {expected}\n"

    @pytest.mark.parametrize(
        ("call", "expected"),
        [
            ("f(\n    a,\n    k=1,  # why\n    b=2,\n)", "f(\n    a,\n    # why\n    b=2,\n)"),
            ("f(\n    a,  # one\n    k=1,  # why\n)", "f(\n    a,  # one\n    # why\n)"),
            ("f(\n    a,\n    # above\n    k=1\n)", "f(\n    a\n    # above\n)"),
            ("f(\n    k=1,  # why\n    a=2,\n)", "f(\n    # why\n    a=2,\n)"),
            ("f(\n    k=1,  # why\n)", "f(\n    # why\n)"),
            ("f(k=1,  # why\n  a=2)", "f(  # why\n  a=2)"),
        ],
    )
    def test_its_comments_stay(self, call: str, expected: str) -> None:
        text = f"x = {call}\n"
        assert fixed(text, RemoveArgument(place_of(text, call), "k")) == f"x = {expected}\n"

    def test_two_arguments_of_one_call_go_together(self) -> None:
        text = "f(a, k=1, m=2)\n"
        place = place_of(text, text.strip())
        assert fixed(text, RemoveArgument(place, "k"), RemoveArgument(place, "m")) == "f(a)\n"

    def test_the_same_edit_on_the_outcome_changes_nothing(self) -> None:
        text = "f(a, k=1)\n"
        edit = RemoveArgument(place_of(text, "f(a, k=1)"), "k")
        assert fixed(fixed(text, edit), edit) == "f(a)\n"


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
        assert fixed(text, Replace(place_of(text, old), new)) == expected

    def test_the_same_edit_on_the_outcome_changes_nothing(self) -> None:
        text = 'f(raw["train"])\n'
        edit = Replace(place_of(text, 'raw["train"]'), 'tokenized_datasets["train"]')
        once = fixed(text, edit)
        assert once == 'f(tokenized_datasets["train"])\n'
        assert fixed(once, edit) == once

    def test_a_place_that_cuts_code_is_an_error(self) -> None:
        with pytest.raises(FixError, match="no whole expression"):
            fixed("abc = 1\n", Replace(Place("train.py", 1, 2, 1, 3), "x"))

    @pytest.mark.parametrize(
        ("text", "old", "new"),
        [("import a\n", "a", "b + 1"), ("import a\n", "a", "b()"), ("x = 'a' 'b'\n", "'a'", "c")],
    )
    def test_code_that_does_not_fit_where_it_is_put_is_an_error(self, text: str, old: str, new: str) -> None:
        with pytest.raises(FixError, match="the code does not fit there"):
            fixed(
                text, Replace(Place("train.py", 1, text.index(old, 2) + 1, 1, text.index(old, 2) + 1 + len(old)), new)
            )

    def test_an_outcome_that_would_not_parse_is_an_error(self) -> None:
        text = "x = 1\n"
        with pytest.raises(FixError, match="would not parse"):
            fixed(text, Replace(place_of(text, "x"), "f()"))


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
        assert fixed(text, InsertBefore(place_of(text, "go()"), "new()")) == expected

    def test_a_compound_statement_takes_the_indentation_of_the_file(self) -> None:
        text = "if a:\n  go()\n"
        inserted = fixed(text, InsertBefore(place_of(text, "go()"), "if b:\n    new()"))
        assert inserted == "if a:\n  if b:\n    new()\n  go()\n"

    def test_the_same_edit_on_the_outcome_changes_nothing(self) -> None:
        text = "for b in l:\n    loss.backward()\n"
        edit = InsertBefore(place_of(text, "loss.backward()"), "optimizer.zero_grad()")
        once = fixed(text, edit)
        assert fixed(once, edit) == once

    def test_two_statements_before_the_same_one_keep_their_order(self) -> None:
        text = "go()\n"
        place = place_of(text, "go()")
        assert fixed(text, InsertBefore(place, "a()"), InsertBefore(place, "b()")) == "a()\nb()\ngo()\n"

    def test_a_compound_statement_between_two_on_a_line_is_an_error(self) -> None:
        text = "a = 1; go()\n"
        with pytest.raises(FixError, match="cannot stand between"):
            fixed(text, InsertBefore(place_of(text, "go()"), "if b: new()"))

    def test_the_first_statement_of_a_cell_gets_it_in_its_cell(self) -> None:
        text = "show\n# old = 1\n\n# %% cell 2\n# the model\nmodel = make()\n"
        edit = InsertBefore(place_of(text, "model = make()"), "seed(0)")
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
        edit = InsertAfter(place_of(text, "go()"), "new()")
        assert fixed(text, edit) == expected
        assert (
            apply(expected, [Fix.of("again", InsertAfter(place_of(expected, "go()"), "new()"), safe=True)]) == expected
        )

    def test_two_statements_after_the_same_one_keep_their_order(self) -> None:
        text = "go()\n"
        place = place_of(text, "go()")
        assert fixed(text, InsertAfter(place, "a()"), InsertAfter(place, "b()")) == "go()\na()\nb()\n"

    def test_a_statement_can_come_before_and_another_after(self) -> None:
        text = "go()\n"
        place = place_of(text, "go()")
        edits = InsertAfter(place, "b()"), InsertBefore(place, "a()"), WrapInWith(place, "held()")
        assert fixed(text, *edits) == "a()\nwith held():\n    go()\nb()\n"

    @pytest.mark.parametrize("text", ["return go()", "raise go()", "a = 1; return go()"])
    def test_a_place_that_leaves_the_block_is_an_error(self, text: str) -> None:
        text = f"def f():\n    {text}\n"
        with pytest.raises(FixError, match="nothing after this statement would run"):
            fixed(text, InsertAfter(place_of(text, "go()"), "new()"))


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
        once = fixed(text, InsertAtTop(place_of(text, at), "new()"))
        assert once == expected
        assert fixed(once, InsertAtTop(place_of(once, text.split("\n")[0][:9]), "new()")) == once

    def test_a_place_outside_any_body_is_an_error(self) -> None:
        with pytest.raises(FixError, match="no compound statement"):
            fixed("go()\n", InsertAtTop(Place("train.py", 1, 1, 1, 3), "new()"))


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
        once = fixed(text, WrapInWith(place_of(text, "go()"), "torch.no_grad()"))
        assert once == expected
        assert fixed(once, WrapInWith(place_of(once, "go()"), "torch.no_grad()")) == once

    def test_statements_already_inside_the_with_stay(self) -> None:
        text = "with torch.no_grad():\n    for b in l:\n        go()\n"
        assert fixed(text, WrapInWith(place_of(text, "go()"), "torch.no_grad()")) == text

    def test_a_loop_is_wrapped_whole(self) -> None:
        text = "for b in l:\n    go()\n"
        wrapped = fixed(text, WrapInWith(place_of(text, text.strip()), "torch.no_grad()"))
        assert wrapped == "with torch.no_grad():\n    for b in l:\n        go()\n"


class TestAddImport:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("", "import evaluate\n"),
            ("x = 1\n", "import evaluate\n\nx = 1\n"),
            ('"""doc"""\nx = 1\n', '"""doc"""\n\nimport evaluate\n\nx = 1\n'),
            (
                "#!/usr/bin/env python\n# by me\n\n# x\nx = 1\n",
                "#!/usr/bin/env python\n# by me\n\nimport evaluate\n\n# x\nx = 1\n",
            ),
            (
                "from __future__ import annotations\nx = 1\n",
                "from __future__ import annotations\n\nimport evaluate\n\nx = 1\n",
            ),
            ("import torch\n", "import evaluate\nimport torch\n"),
            ("import datasets\nimport torch\n", "import datasets\nimport evaluate\nimport torch\n"),
            ("import os\n\nimport torch\n", "import os\n\nimport evaluate\nimport torch\n"),
            ("import os\n\nx = 1\n", "import os\n\nimport evaluate\n\nx = 1\n"),
            (
                "import os\n\n# models\nfrom transformers import X\n",
                "import os\n\nimport evaluate\n# models\nfrom transformers import X\n",
            ),
            ("import evaluate as e\n", "import evaluate as e\nimport evaluate\n"),
            ("def f():\n    import evaluate\n", "import evaluate\n\ndef f():\n    import evaluate\n"),
        ],
    )
    def test_a_module_is_imported_where_a_sorter_would_put_it(self, text: str, expected: str) -> None:
        once = fixed(text, AddImport("evaluate"))
        assert once == expected
        assert fixed(once, AddImport("evaluate")) == once

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("from torch.optim import SGD\n", "from torch.optim import SGD, AdamW\n"),
            ("from torch.optim import (\n    SGD,\n)\n", "from torch.optim import (\n    SGD,\n    AdamW,\n)\n"),
            ("from torch.optim import (SGD)\n", "from torch.optim import (SGD, AdamW)\n"),
            ("from torch.optim import *\n", "from torch.optim import *\nfrom torch.optim import AdamW\n"),
            ("from torch.optim import AdamW\n", "from torch.optim import AdamW\n"),
            ("from torch.optim import AdamW as A\n", "from torch.optim import AdamW as A, AdamW\n"),
            ("import torch\n", "import torch\nfrom torch.optim import AdamW\n"),
        ],
    )
    def test_a_name_joins_the_others_of_its_module(self, text: str, expected: str) -> None:
        once = fixed(text, AddImport("torch.optim", "AdamW"))
        assert once == expected
        assert fixed(once, AddImport("torch.optim", "AdamW")) == once

    def test_an_import_of_a_part_brings_the_whole_module(self) -> None:
        assert fixed("import torch.nn\n", AddImport("torch")) == "import torch.nn\n"

    def test_an_import_below_the_statement_that_needs_it_is_none(self) -> None:
        text = "import os\n\nprint(os.name)\nimport torch\n\ntorch.rand(3)\n"
        edits = InsertBefore(place_of(text, "print(os.name)"), "torch.manual_seed(0)"), AddImport("torch")
        assert fixed(text, *edits) == (
            "import os\n\nimport torch\n\ntorch.manual_seed(0)\nprint(os.name)\nimport torch\n\ntorch.rand(3)\n"
        )

    def test_a_function_that_needs_a_name_runs_later(self) -> None:
        text = "def seed():\n    start()\n\n\nimport torch\n\nseed()\n"
        edits = Replace(place_of(text, "start()"), "torch.manual_seed(0)"), AddImport("torch")
        assert fixed(text, *edits) == text.replace("start()", "torch.manual_seed(0)")


class TestWhereImportsGo:
    def test_a_library_goes_beside_its_own_imports_below_what_has_to_run_first(self) -> None:
        text = "import os\n\nos.environ['HF_HOME'] = 'here'\nimport datasets\nimport torch\n"
        expected = text + "from torch.optim import AdamW\n"
        assert fixed(text, AddImport("torch.optim", "AdamW")) == expected
        assert fixed(text, AddImport("evaluate")) == text.replace("datasets\n", "datasets\nimport evaluate\n")
        assert fixed(text, AddImport("itertools")) == f"import itertools\n{text}"

    def test_it_goes_to_the_top_where_the_name_is_used_above(self) -> None:
        text = "import os\n\nAdamW = load(AdamW)\nimport torch\n"
        assert fixed(text, AddImport("torch.optim", "AdamW")).startswith("import os\n\nfrom torch.optim import AdamW\n")

    @pytest.mark.parametrize(
        ("above", "module", "expected"),
        [
            ("display()", "evaluate", "# %% cell 2\nimport evaluate\nimport torch\n"),
            ("display()", "time", "# %% cell 2\nimport time\n\nimport torch\n"),
            ("import os", "time", "import time\n# %% cell 2\nimport torch\n"),
        ],
    )
    def test_an_import_goes_into_the_cell_of_its_neighbours(self, above: str, module: str, expected: str) -> None:
        text = f"# %% cell 1\n{above}\n# %% cell 2\nimport torch\n"
        assert fixed(text, AddImport(module)) == f"# %% cell 1\n{above}\n{expected}"


class TestRemoveImport:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("from m import a\nx = 1\n", "x = 1\n"),
            ("from m import a, b\n", "from m import b\n"),
            ("from m import b, a\n", "from m import b\n"),
            ("from m import (\n    b,\n    a,  # old\n)\n", "from m import (\n    b,\n    # old\n)\n"),
            ("from m import b as a\n", "from m import b as a\n"),
            ("from m import *\n", "from m import *\n"),
            (
                "try:\n    from m import a\nexcept ImportError:\n    a = 1\n",
                "try:\n    pass\nexcept ImportError:\n    a = 1\n",
            ),
        ],
    )
    def test_one_name_goes_and_takes_an_empty_import_along(self, text: str, expected: str) -> None:
        assert fixed(text, RemoveImport("m", "a")) == expected

    def test_the_comments_above_an_import_stay_when_it_goes(self) -> None:
        text = "import a\n\n# %% cell 2\nfrom m import a\n\n# used below\nx = 1\n"
        assert fixed(text, RemoveImport("m", "a")) == "import a\n\n# %% cell 2\n# used below\nx = 1\n"
        assert fixed("import b\n# old\nfrom m import a\n", RemoveImport("m", "a")) == "import b\n# old\n"
        assert fixed("import b; from m import a; c()\n", RemoveImport("m", "a")) == "import b; c()\n"

    def test_a_name_can_move_from_one_module_to_another(self) -> None:
        text = "from transformers import AdamW, Trainer\n"
        moved = fixed(text, RemoveImport("transformers", "AdamW"), AddImport("torch.optim", "AdamW"))
        assert moved == "from torch.optim import AdamW\nfrom transformers import Trainer\n"


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
        once = fixed(text, AddParameter(place_of(text, "def f("), "k", "None"))
        assert once == f"{expected}\n"
        assert fixed(once, AddParameter(place_of(once, "def f("), "k", "None")) == once


class TestMoves:
    def test_a_statement_goes_before_another_with_its_comments(self) -> None:
        text = "a()\n\n# the net\nnet = f(\n    1,\n)\n\n# for all\nseed(0)  # here\nb()\n"
        edit = MoveBefore(place_of(text, "seed(0)"), place_of(text, "net = f("))
        once = fixed(text, edit)
        assert once == "a()\n\n# for all\nseed(0)  # here\n# the net\nnet = f(\n    1,\n)\nb()\n"
        again = MoveBefore(place_of(once, "seed(0)"), place_of(once, "net = f("))
        assert fixed(once, again) == once

    def test_a_statement_goes_after_another(self) -> None:
        text = "def main():\n    opt = g(net)\n\n    net = f()\n    for x in y:\n        z\n"
        edit = MoveAfter(place_of(text, "g(net)"), place_of(text, "f()"))
        assert fixed(text, edit) == "def main():\n\n    net = f()\n    opt = g(net)\n    for x in y:\n        z\n"

    @pytest.mark.parametrize("text", ["if x:\n    a()\nb()\n", "a(); b()\n", "b()\nif x: a()\n"])
    def test_no_statement_leaves_its_block_or_its_line(self, text: str) -> None:
        with pytest.raises(FixError, match="within its block"):
            fixed(text, MoveAfter(place_of(text, "a()"), place_of(text, "b()")))

    def test_the_first_statement_of_a_cell_stays_in_it(self) -> None:
        text = "make()\n# %% cell 2\nseed(0)\ntrain()\n"
        with pytest.raises(FixError, match="first statement of a cell"):
            fixed(text, MoveBefore(place_of(text, "seed(0)"), place_of(text, "make()")))

    def test_the_target_may_be_the_first_statement_of_a_cell(self) -> None:
        text = "show\n# %% cell 2\nmake()\n# once\nseed(0)\n"
        edit = MoveBefore(place_of(text, "seed(0)"), place_of(text, "make()"))
        assert fixed(text, edit) == "show\n# %% cell 2\n# once\nseed(0)\nmake()\n"


class TestWrapBody:
    def test_the_whole_body_goes_in_and_only_once(self) -> None:
        text = "for x in y:  # all\n    # one\n    a(x)\n\n    b(x)\n    # last\nc()\n"
        once = fixed(text, WrapBody(place_of(text, "for"), "held(net)"))
        assert once == (
            "for x in y:  # all\n    with held(net):\n        # one\n        a(x)\n\n        b(x)\n"
            "        # last\nc()\n"
        )
        assert fixed(once, WrapBody(place_of(once, "for"), "held(net)")) == once

    def test_a_body_on_the_line_of_its_loop_gets_lines_of_its_own(self) -> None:
        text = "for x in y: a(x)\n"
        assert fixed(text, WrapBody(place_of(text, "for"), "held()")) == (
            "for x in y:\n    with held():\n        a(x)\n"
        )


class TestSeveralFixes:
    def test_of_two_that_overlap_the_first_wins(self) -> None:
        text = "f(g(a))\n"
        outer = Fix.of("outer", Replace(place_of(text, "g(a)"), "b"), safe=True)
        inner = Fix.of("inner", AddArgument(place_of(text, "g(a)"), "k", "1"), safe=True)
        assert apply(text, [outer, inner]) == "f(b)\n"
        assert apply(text, [inner, outer]) == "f(g(a, k=1))\n"

    def test_a_fix_is_left_out_whole(self) -> None:
        text = "f(a)\ng(b)\n"
        first = Fix.of("first", Replace(place_of(text, "a"), "c"), safe=True)
        second = Fix.of("second", Replace(place_of(text, "f(a)"), "h()"), AddImport("torch"), safe=True)
        assert apply(text, [first, second]) == "f(c)\ng(b)\n"

    def test_the_same_edit_of_two_fixes_is_made_once(self) -> None:
        text = "f(a)\n"
        edit = AddArgument(place_of(text, "f(a)"), "k", "1")
        assert apply(text, [Fix.of("one", edit, safe=True), Fix.of("other", edit, safe=True)]) == "f(a, k=1)\n"

    def test_different_values_for_one_new_argument_exclude_each_other(self) -> None:
        text = "f(a)\n"
        place = place_of(text, "f(a)")
        fixes = [Fix.of(value, AddArgument(place, "k", value), safe=True) for value in ("1", "2")]
        assert apply(text, fixes) == "f(a, k=1)\n"

    def test_fixes_at_different_places_are_all_made(self) -> None:
        text = "for b in l:\n    f(a, k=1)\n"
        place = place_of(text, "f(a, k=1)")
        fixes = [
            Fix.of("one", RemoveArgument(place, "k"), safe=True),
            Fix.of("two", Replace(place_of(text, "a"), "c"), safe=True),
            Fix.of("three", InsertBefore(place, "new()"), WrapInWith(place, "held()"), safe=True),
        ]
        assert apply(text, fixes) == "for b in l:\n    new()\n    with held():\n        f(c)\n"

    def test_one_fix_that_changes_the_same_code_twice_is_an_error(self) -> None:
        text = "f(a)\n"
        with pytest.raises(FixError, match="`mend it` changes the same code twice"):
            fixed(text, Replace(place_of(text, "a"), "b"), Replace(place_of(text, "f(a)"), "g()"))

    def test_no_fix_leaves_the_text_alone(self) -> None:
        assert apply("not python (", []) == "not python ("

    def test_a_text_that_is_no_python_is_an_error_with_its_line(self) -> None:
        with pytest.raises(FixError, match="line 2"):
            fixed("x = 1\ny = (\n", AddImport("torch"))

    def test_odd_but_legal_escapes_are_no_concern(self) -> None:
        assert fixed('x = "\\d"\n', AddImport("re")) == 'import re\n\nx = "\\d"\n'
