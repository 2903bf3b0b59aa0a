"""The journal of a scope: branches are undone, joined and applied again, and nothing else of the names changes."""

from __future__ import annotations

import pytest

from lintrain.interpreter.core.scope import Scope
from lintrain.knowledge.versions import TargetVersions
from lintrain.pipeline.values.python import Constant, Either, Value
from lintrain.read import read_pipeline
from lintrain.source.source import Source

ONE, TWO, THREE = Constant(1), Constant(2), Constant(3)


def scope_of(**names: Value) -> Scope:
    scope = Scope()
    for name, value in names.items():
        scope.put(name, value)
    return scope


def test_undoing_restores_what_was_bound_again_deleted_and_new() -> None:
    scope = scope_of(a=ONE, b=TWO)
    start = len(scope.journal)
    scope.put("a", TWO)
    scope.put("a", THREE)
    scope.remove("b")
    scope.put("c", ONE)
    assert scope.undo(start) == {"a": THREE, "b": None, "c": ONE}
    assert scope.names == {"a": ONE, "b": TWO}
    assert len(scope.journal) == start


def test_changes_that_are_applied_can_be_undone_with_those_around_them() -> None:
    scope = scope_of(a=ONE)
    scope.put("b", ONE)
    inner = len(scope.journal)
    scope.remove("a")
    scope.apply(scope.undo(inner))
    assert scope.names == {"b": ONE}
    assert scope.undo(1) == {"b": ONE, "a": None}
    assert scope.names == {"a": ONE}


def test_branches_are_joined_name_by_name() -> None:
    scope = scope_of(a=ONE, b=ONE, c=ONE, d=ONE)
    joined = scope.joined([{"b": TWO, "c": None, "d": None}, {"a": TWO, "d": None, "e": THREE}])
    either = joined["a"]
    assert isinstance(either, Either)
    assert either.options == (ONE, TWO)
    assert joined == {"b": joined["b"], "c": ONE, "d": None, "a": either, "e": THREE}
    assert list(joined) == ["b", "c", "d", "a", "e"]


@pytest.mark.parametrize(
    ("code", "values"),
    [
        ("x = 1\nif q:\n    x = 2\n", {1, 2}),
        ("x = 1\nif q:\n    x = 2\nelse:\n    x = 3\n", {2, 3}),
        ("x = 1\ntry:\n    x = 2\nexcept OSError:\n    pass\n", {1, 2}),
        ("x = 1\ntry:\n    x = 2\nexcept OSError:\n    x = 3\n", {2, 3}),
        ("x = None\nwhile q():\n    if r:\n        x = 2\n        break\n", {None, 2}),
        ("x = None\nfor y in q:\n    x = 2\n", {2}),
        ("def set_it():\n    global x\n    x = 2\nx = 1\nif q:\n    set_it()\n", {1, 2}),
        ("if q:\n    x = 1\n    raise SystemExit\nelse:\n    x = 2\n", {2}),
    ],
)
def test_a_name_is_what_the_ways_to_it_left_behind(code: str, values: set[int | None]) -> None:
    text = f"from transformers import TrainingArguments\n{code}TrainingArguments('out', seed=x)\n"
    given = read_pipeline(Source("t.py", text), TargetVersions()).arguments[0].value("seed")
    options = given.options if isinstance(given, Either) else (given,)
    assert {option.value for option in options if isinstance(option, Constant)} == values
    assert all(isinstance(option, Constant) for option in options)
