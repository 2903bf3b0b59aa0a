"""Scripts that are written otherwise and do the same get the same findings, on the lines that they were on before.

`python -m tests.metamorphic` compares every mistake in every script; here is a part of that, in a few ways at each
commit.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.accuracy.code import Code
from tests.metamorphic.comparing import TRANSFORMATIONS, Subject, Transformation, differences
from tests.metamorphic.extracting import extract_function
from tests.metamorphic.inlining import inline_function
from tests.metamorphic.moving import move_definitions
from tests.metamorphic.padding import add_dead_code, cells_of
from tests.metamorphic.renaming import rename_variables
from tests.metamorphic.reordering import reorder_statements
from tests.metamorphic.script import Script
from tests.metamorphic.subjects import mixed_subjects, plain_scripts, subjects_that_fit
from tests.support.turns import set_turn, whose_turn

LEAST = 30
"""Fewer scripts would prove little."""

MISTAKES = {inline_function: 4, move_definitions: 2}
"""How many mistakes each script gets, where few scripts have what a transformation is about."""

BY_NAME = {transformation.__name__: transformation for transformation in TRANSFORMATIONS}
WAYS = 3
"""How many ways to write a script otherwise are tried at a commit."""


@pytest.fixture(scope="module")
def subjects() -> list[Subject]:
    return list(mixed_subjects(plain_scripts()))


@pytest.mark.parametrize("name", whose_turn(BY_NAME, WAYS, set_turn()))
def test_what_is_written_otherwise_gets_the_same_findings(name: str, subjects: list[Subject]) -> None:
    transformation = BY_NAME[name]
    if transformation in MISTAKES:
        subjects = list(subjects_that_fit(transformation, plain_scripts(), most_of_one=MISTAKES[transformation]))
    compared = [(one, found) for one in subjects if (found := differences(one, transformation)) is not None]
    assert [f"{one.name}: {found}" for one, found in compared if found] == []
    assert sum(bool(one.said) for one, _ in compared) >= LEAST
    assert sum(not one.said for one, _ in compared) >= LEAST / 3


def test_the_scripts_hold_many_mistakes(subjects: list[Subject]) -> None:
    assert len({rule for one in subjects for rule, _, _ in one.said}) >= LEAST


def test_a_lost_finding_and_a_moved_one_are_noticed(subjects: list[Subject]) -> None:
    subject = next(one for one in subjects if one.name.startswith("loop/") and len(one.focus) == 1)
    (line,) = subject.focus

    def drop(script: Script, focus: frozenset[int]) -> Script:
        return script.with_lines({(line, line): []})

    def disown(script: Script, focus: frozenset[int]) -> Script:
        return Script.of("\n" + script.text)

    assert [each.split(":")[0] for each in differences(subject, drop) or []] == ["lost"]
    assert sorted(each.split(":")[0] for each in differences(subject, disown) or []) == ["gained", "lost"]


def rewritten(transformation: Transformation, text: str) -> str:
    made = transformation(Script.of(text), frozenset())
    assert made
    return made.text


def test_variables_are_renamed_and_what_libraries_call_by_name_is_not() -> None:
    text = 'rate = 1\nmodel.rate = rate\nfit(rate=rate)\nprint(f"rate {rate:.2f}")\n\ndef f(rows):\n    return rows'
    assert rewritten(rename_variables, text) == (
        'thing_1 = 1\nmodel.rate = thing_1\nfit(rate=thing_1)\nprint(f"rate {thing_1:.2f}")\n\n'
        "def f(rows):\n    return rows"
    )


def test_neighbours_change_places_unless_one_needs_the_other() -> None:
    assert rewritten(reorder_statements, "import b\nimport a\nx = 1\ny = x") == "import a\nimport b\nx = 1\ny = x"
    assert reorder_statements(Script.of("x = 1\ny = f(2)\nz = y\n"), frozenset()) is None


def test_a_run_of_statements_becomes_a_function() -> None:
    loop = "def go(rows, a):\n    for row in rows:\n        b = a\n        if b:\n            return 3\n"
    made = extract_function(Script.of(loop + "        a += b\n    return a"), frozenset({6}))
    assert made
    part = "def extracted_part(a, b):\n    a += b\n    return a\n\n\n"
    assert made.text == f"{part}{loop}        a = extracted_part(a, b)\n    return a"
    assert [line.origin for line in made.lines] == [0, 6, 0, 0, 0, 1, 2, 3, 4, 5, 0, 7]


def test_a_function_is_written_where_it_is_called() -> None:
    text = "def double(x, y=2):\n    x = x * y\n    return x\n\nx = 3\nz = double(x)"
    assert rewritten(inline_function, text) == (
        "\nx = 3\ninlined_x = x\ny = 2\ninlined_x = inlined_x * y\ngiven_back = inlined_x\nz = given_back"
    )


def test_a_class_moves_to_another_file_unless_it_reads_a_variable() -> None:
    text = "import torch\n\nsize = 3\n\nclass Net(torch.nn.Module):\n    pass\n\nclass Other:\n    width = size"
    made = move_definitions(Script.of(text), frozenset())
    assert made
    assert made.text == ("import torch\n\nsize = 3\n\nfrom moved_parts import Net\n\nclass Other:\n    width = size")
    moved = "\n".join(line.text for line in made.beside["moved_parts.py"])
    assert moved == "import torch\n\nclass Net(torch.nn.Module):\n    pass\n"


def test_dead_code_stands_between_all_statements() -> None:
    made = add_dead_code(Script.of('"""Page."""\nx = 1\nif x:\n    y = 2'), frozenset())
    assert [line.origin for line in made.lines if line.origin] == [1, 2, 3, 4]
    assert "if False:" in made.text
    assert "    pass\n" in made.text


def test_a_cell_ends_with_no_value_that_the_script_throws_away() -> None:
    cells = cells_of(Script.of("x = 1\nrows.map(f)\ny = 2\nz = 3"))
    assert [[line.text for line in cell] for cell in cells] == [["x = 1"], ["rows.map(f)", "y = 2"], ["z = 3"]]


def test_a_notebook_is_no_subject() -> None:
    assert {Path(code.path).suffix for code in plain_scripts()} == {".py"}
    assert all(isinstance(code, Code) for code in plain_scripts())
