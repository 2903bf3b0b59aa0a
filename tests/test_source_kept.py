"""What statements keep for the edits to come: their names, and what is at a place of them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from lintrain.model.location import Location
from lintrain.source import by_name, places
from lintrain.source.bounds import Nesting
from lintrain.source.latest_tree import LatestTree
from lintrain.source.nodes import named, own_nodes, statements
from lintrain.source.source import Source
from tests.conftest import ROOT

SCRIPTS = [
    *sorted((ROOT / "fixtures" / "course").glob("*.py"))[:6],
    ROOT / "lintrain" / "check" / "one_file.py",
    ROOT / "lintrain" / "source" / "nodes.py",
]

CODE = """import torch; from a import b

@made(
    first(1), second()
)
class Net(base()):
    def forward(self, x): return self.layer(x); self.layer = 2

f"{one(1)} {two(2)}"; x = three(é, four())
if x:
    x = x.grad.item()
"""


@pytest.mark.parametrize("path", [None, *SCRIPTS], ids=lambda path: path.stem if path else "odd")
def test_what_is_at_a_place_is_what_a_look_at_the_whole_file_finds(path: Path | None) -> None:
    source = Source("train.py", path.read_text() if path else CODE)
    calls = {source.location(node): node for node in reversed(source.nodes_of(ast.Call))}
    expressions = {source.location(node): node for node in reversed(source.nodes) if isinstance(node, ast.expr)}
    around = Nesting((source.location(node), node) for node in statements(source.tree.body))
    for node in source.nodes:
        if isinstance(node, ast.expr | ast.stmt):
            location = source.location(node)
            assert places.call_at(source, location) is calls.get(location)
            assert places.expression_at(source, location) is expressions.get(location)
            assert places.statement_at(source, location) is around.innermost(location)


def test_nothing_is_at_a_place_of_another_file_or_outside_of_the_code() -> None:
    source = Source("train.py", CODE)
    call = source.location(source.nodes_of(ast.Call)[0])
    assert places.call_at(source, call) is not None
    assert places.call_at(source, Location("other.py", call.line, call.column, call.end_line, call.end_column)) is None
    assert places.statement_at(source, Location("train.py", 99, 1, 99, 2)) is None
    assert places.call_at(Source("train.py", ""), call) is None


def test_names_are_found_by_what_they_are_called() -> None:
    source = Source("train.py", CODE)
    assert [ast.unparse(node) for node in source.named("x", "grad", "nowhere")] == ["x", "x", "x", "x", "x", "x.grad"]
    function = source.nodes_of(ast.FunctionDef)[0]
    assert [ast.unparse(node) for node in source.named_in(function, "layer")] == ["self.layer", "self.layer"]
    assert source.named_in(source.tree, "layer") == source.named("layer")
    assert set(named(function)) == {"self", "layer", "x"}


def test_a_question_is_asked_again_only_of_the_statement_that_was_edited() -> None:
    asked = list[str]()

    def words(statement: ast.stmt) -> list[str]:
        asked.append(ast.unparse(statement))
        return [node.id for node in ast.walk(statement) if isinstance(node, ast.Name)]

    latest, found = LatestTree(), list[list[str]]()
    for text in ("x = a\ny = b\nz = c\n", "x = a\ny = d\nz = c\n"):
        with latest.serving("train.py"):
            found.append(Source("train.py", text).gathered(words))
    assert found == [["x", "a", "y", "b", "z", "c"], ["x", "a", "y", "d", "z", "c"]]
    assert asked == ["x = a", "y = b", "z = c", "y = d"]


DECORATED = """@held(
    other()
)
def g(): pass
"""


@pytest.mark.parametrize("path", [None, *SCRIPTS], ids=lambda path: path.stem if path else "odd")
def test_calls_and_scopes_by_name_are_those_that_a_look_at_every_node_finds(path: Path | None) -> None:
    source = Source("train.py", path.read_text() if path else f"{CODE}\n{DECORATED}")
    called = [
        (each, each.func.attr if isinstance(each.func, ast.Attribute) else each.func.id)
        for each in source.nodes_of(ast.Call)
        if isinstance(each.func, ast.Attribute | ast.Name)
    ]
    names = sorted({name for _, name in called})
    for chosen in (*((name,) for name in names), set(names[::2]), names, ("no_such_name",)):
        assert by_name.calls_of(source, chosen) == [call for call, name in called if name in chosen]
    for word in {*names, "x", "no_such_name"}:
        found = by_name.scopes_naming(source, word)
        for scope in (source.tree, *source.nodes_of(ast.FunctionDef)):
            has_it = any(
                word in (getattr(node, "id", None), getattr(node, "attr", None))
                for node in own_nodes(scope)
                if isinstance(node, ast.Name | ast.Attribute)
            )
            assert not has_it or scope in found
        assert bool(found) == any(word in named(statement) for statement in source.tree.body)


def test_scopes_come_with_an_answer_that_is_asked_once_while_they_are_kept() -> None:
    asked, latest = list[str](), LatestTree()

    def returned(scope: by_name.Scope) -> list[ast.Return]:
        asked.append(getattr(scope, "name", ""))
        return [node for node in own_nodes(scope) if isinstance(node, ast.Return)]

    for text in ("def f():\n    return 1\ndef g(): pass\n", "def f():\n    return 1\n\ndef g(): pass\n"):
        with latest.serving("train.py"):
            found = by_name.scopes_with(Source("train.py", text), returned)
        assert [(getattr(scope, "name", ""), len(answer)) for scope, answer in found] == [("f", 1)]
    assert asked == ["", "f", "g", ""]
