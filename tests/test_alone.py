"""The benchmark of completed code of others: recipes are whole, both versions are written, places are judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.alone import __main__ as command
from benchmarks.alone.building import ENTRY, SourceError, Written, put_together, write
from benchmarks.alone.judging import Judged, Result, Shown, result_of
from benchmarks.alone.recipes import Edit, Half, Recipe, Span, read_recipes
from lintrain.model.finding import Finding
from lintrain.model.level import Level
from lintrain.model.location import Location
from lintrain.rulebook import load_rules

RECIPES = read_recipes()
POSTS = [recipe for recipe in RECIPES if recipe.name.startswith("posts/")]
SOURCE = "one\ntwo\nthree\n\nfour\n"


def recipe(name: str = "posts/some", true: str = "", *places: Span) -> Recipe:
    rules = frozenset({"missing-step"})
    return Recipe(name, "", rules, frozenset(true.split()), places or (Span(2, 3),), "why", "", "", "", (), (), ())


def finding(rule: str, line: int) -> Finding:
    return Finding(rule, Level.ERROR, Location(ENTRY, line, 1, line, 5), "message", "why", "fix")


def test_there_are_enough_recipes_in_both_halves() -> None:
    assert len(RECIPES) >= 60
    assert all(sum(recipe.half is half for recipe in RECIPES) >= 25 for half in Half)
    assert len({recipe.name for recipe in RECIPES}) == len(RECIPES)


def test_rules_of_recipes_exist() -> None:
    known = {rule.name for rule in load_rules()}
    assert {name for recipe in RECIPES for name in recipe.rules | recipe.true} <= known


def test_every_recipe_names_a_place_and_changes_something() -> None:
    for each in RECIPES:
        assert each.places, each.name
        assert each.fixes or each.name.startswith("commits/"), each.name


@pytest.mark.parametrize("each", POSTS, ids=lambda each: each.name)
def test_both_versions_of_a_post_are_python_and_differ(each: Recipe, tmp_path: Path) -> None:
    texts = []
    for fixed in (False, True):
        folder = tmp_path / str(fixed)
        folder.mkdir()
        written = write(each, tmp_path, folder, fixed=fixed)
        compile(written[ENTRY].text, ENTRY, "exec")
        texts.append((folder / ENTRY).read_text())
    assert texts[0] != texts[1]


def test_a_source_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no post"):
        write(recipe(), tmp_path, tmp_path, fixed=False)


def test_lines_know_where_they_come_from() -> None:
    edits = (Edit(Span(2, 3), "new\nlines"),)
    written = put_together(SOURCE, edits, "start\n", "end  # <- here\n", "  ")
    assert written.lines == ("start", "  one", "  new", "  lines", "", "  four", "end")
    assert [written.is_right(line, line, [Span(2, 2)]) for line in range(1, 8)] == [
        *(False, False),
        *(True, True),
        *(False, False, True),
    ]


@pytest.mark.parametrize(
    ("found", "result"),
    [
        ([("missing-step", 2)], Result.CONFIRMED),
        ([("missing-step", 4)], Result.MISPLACED),
        ([("missing-backward", 2)], Result.OTHERWISE),
        ([("missing-seed", 2)], Result.MISSED),
        ([], Result.MISSED),
    ],
)
def test_a_mistake_is_confirmed_by_its_rule_at_its_place(found: list[tuple[str, int]], result: Result) -> None:
    written: dict[str, Written] = {ENTRY: put_together(SOURCE, ())}
    shown = Shown(tuple(finding(rule, line) for rule, line in found), "")
    assert result_of(recipe(true="missing-seed"), written, shown) is result


def test_only_sums_of_the_measuring_half_are_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    class Nothing:
        def __init__(self, jobs: int) -> None: ...
        def __enter__(self) -> Nothing:
            return self

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(command, "Prober", Nothing)
    monkeypatch.setattr(command, "build", lambda: None)
    monkeypatch.setattr(
        command, "judge_recipe", lambda _, each, clones: Judged(each, Result.MISSED, "nothing", ("false",), "")
    )
    assert command.main([str(tmp_path), "--missed"]) == 1
    printed = capsys.readouterr().out
    listed = {line.split()[1].rstrip(":") for line in printed.splitlines() if line.startswith(("missed", "false"))}
    assert listed == {each.name for each in RECIPES if each.half is Half.WORK}
    assert printed.splitlines()[-1].split()[:4] == ["both", "all", str(len(RECIPES)), "0"]
