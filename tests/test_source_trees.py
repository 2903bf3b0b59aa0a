"""What a source keeps of its syntax tree: the nodes, and answers that are found once."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from lintrain.source.bounds import Nesting
from lintrain.source.nodes import children, ordered_statements, statements, walk
from lintrain.source.parsing import expression_of
from lintrain.source.source import Source
from tests.conftest import ROOT

ODD_SYNTAX = """
async def f(a, /, b=1, *c, d, e=2, **g):
    global h
    async with a as b, c: await d
    async for i in j: yield i
    match a:
        case {"k": [1, *_], **rest} if rest: pass
        case P(x, y=None) | None as z: pass
    try: pass
    except* (A, B) as error: raise error from None
    return {**a, 1: f"{b!r:>{c}}", "d": (lambda *, q=3: q)}
"""

CODE = "def f(x):\n    return x + 1\n\n\ndef g(x):\n    return f(x)\n"


def test_a_question_about_a_node_is_asked_once() -> None:
    source = Source("train.py", CODE)
    asked: list[str] = []

    def name(node: ast.stmt) -> str:
        asked.append(ast.unparse(node)[:5])
        return asked[-1]

    first, second = source.tree.body
    assert [source.once(name, node) for node in (first, first, second, first)] == ["def f", "def f", "def g", "def f"]
    assert asked == ["def f", "def g"]


def test_two_questions_about_a_node_have_two_answers() -> None:
    source = Source("train.py", CODE)
    first = source.tree.body[0]

    def line(node: ast.stmt) -> int:
        return node.lineno

    def end(node: ast.stmt) -> int | None:
        return node.end_lineno

    assert (source.once(line, first), source.once(end, first), source.once(line, first)) == (1, 2, 1)


def test_answers_go_with_the_tree() -> None:
    source = Source("train.py", CODE)
    tree, nodes = source.tree, source.nodes
    source.once(ast.dump, tree)
    source.forget_tree()
    assert source.answers == {}
    assert source.tree is not tree
    assert source.nodes is not nodes


def test_the_nodes_are_those_of_the_tree_outer_ones_first() -> None:
    source = Source("train.py", CODE)
    assert source.nodes is source.nodes
    assert source.nodes[0] is source.tree
    assert len(source.nodes) == len(set(source.nodes))
    assert {type(node) for node in source.nodes} >= {ast.FunctionDef, ast.Return, ast.BinOp, ast.Call, ast.Name}
    order = {node: number for number, node in enumerate(source.nodes)}
    children = [(node, child) for node in source.nodes for child in ast.iter_child_nodes(node) if child in order]
    assert all(order[node] < order[child] for node, child in children)


def test_the_nodes_of_every_kind_of_syntax_are_those_of_ast() -> None:
    marks = (ast.Load, ast.Store, ast.Del)
    for file in sorted(Path(ast.__file__).parent.glob("*.py"))[:80]:
        tree = ast.parse(file.read_bytes())
        assert walk(tree) == [node for node in ast.walk(tree) if not isinstance(node, marks)], file
    tree = ast.parse(ODD_SYNTAX)
    assert walk(tree) == [node for node in ast.walk(tree) if not isinstance(node, marks)]
    assert [children(node) for node in walk(tree)] == [
        [below for below in ast.iter_child_nodes(node) if not isinstance(below, marks)] for node in walk(tree)
    ]


def test_the_nodes_of_several_kinds_come_in_the_order_of_the_tree() -> None:
    source = Source("train.py", CODE)
    both = source.nodes_of(ast.Return, ast.FunctionDef)
    assert list(both) == [node for node in source.nodes if isinstance(node, ast.Return | ast.FunctionDef)]
    assert list(source.nodes_of(ast.ClassDef)) == []


def test_an_odd_escape_in_a_script_is_no_word_of_lintrains(recwarn: pytest.WarningsRecorder) -> None:
    assert ast.unparse(expression_of(r'rows.map(lambda row: re.sub("\d", "", row))')).startswith("rows.map(")
    assert not recwarn.list


def test_no_rule_has_the_parser_speak_over_the_report() -> None:
    files = sorted((ROOT / "rules").rglob("*.py"))
    assert files
    assert [path.name for path in files if "ast.parse(" in path.read_text(encoding="utf-8")] == []


@pytest.mark.parametrize("path", ["", "lintrain/check/one_file.py", "lintrain/source/newer_grammar.py"])
def test_statements_are_in_the_order_of_the_code_each_with_the_one_around_it(path: str) -> None:
    file = ROOT / path
    blocks = "try:\n    a\nexcept A:\n    b\nelse:\n    c; d\nfinally:\n    if e: f\n    elif g: h\n    else: i\n"
    source = Source("train.py", file.read_text() if file.is_file() else ODD_SYNTAX + blocks)
    ordered = ordered_statements(source.tree)
    around = Nesting((source.location(node), node) for node in statements(source.tree.body))
    assert sorted((node.lineno, node.col_offset) for node, _ in ordered) == [
        (node.lineno, node.col_offset) for node, _ in ordered
    ]
    assert {node for node, _ in ordered} == set(statements(source.tree.body))
    for node, outer in ordered:
        outside = list(around.around(source.location(node)))[1:]
        assert outside[:1] == ([] if outer == -1 else [ordered[outer][0]])
