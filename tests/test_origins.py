"""What a value is computed from, statement by statement."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from lintrain.analysis.origins import Origin, origins
from lintrain.source.source import Source


def behind_loss(code: str, *, without: str = "") -> list[Origin]:
    """What the last `loss` in some code is computed from."""
    source = Source("train.py", dedent(code))
    last = [node for node in source.nodes_of(ast.Name) if node.id == "loss" and isinstance(node.ctx, ast.Load)]
    loss = max(last, key=lambda node: (node.lineno, node.col_offset))
    return list(origins(source, loss, lambda each: not without or without not in ast.unparse(each)))


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("out = net(x)\nloss = f(out)\nloss.backward()", ["loss", "f(out)", "net(x)"]),
        ("a, b = net(x), y\nloss = f(b)\nloss.backward()", ["loss", "f(b)", "y"]),
        ("loss = f(x)\nloss /= steps\nloss.backward()", ["loss", "steps", "f(x)"]),
        ("loss = f(x)\nloss = g(x)\nloss.backward()", ["loss", "g(x)"]),
        ("self.out = net(x)\nloss = f(self.out)\nloss.backward()", ["loss", "f(self.out)", "net(x)"]),
        ("with amp.scale(first) as loss:\n    loss.backward()", ["loss", "amp.scale(first)"]),
        ("out = net(x)\nfor _ in range(2):\n    loss = f(out)\n    loss.backward()", ["loss", "f(out)", "net(x)"]),
    ],
)
def test_each_expression_behind_a_loss_is_found_latest_first(code: str, expected: list[str]) -> None:
    assert [ast.unparse(each.expression) for each in behind_loss(code)] == expected


def test_a_branch_is_not_certain_and_leaves_what_came_before() -> None:
    found = behind_loss("loss = f(x)\nif many:\n    loss = loss.mean()\nloss.backward()")
    assert [(ast.unparse(each.expression), each.is_certain) for each in found] == [
        ("loss", True),
        ("loss.mean()", False),
        ("f(x)", True),
    ]


def test_nothing_is_followed_through_what_leaves_the_graph() -> None:
    found = behind_loss("out = net(x)\nloss = f(out.detach())\nloss.backward()", without="detach")
    assert [ast.unparse(each.expression) for each in found] == ["loss"]


def test_statements_after_an_expression_and_in_other_functions_are_left_out() -> None:
    code = """
        def other():
            loss = g(x)

        def step(x):
            loss = f(x)
            loss.backward()
            x = h(x)
    """
    assert [ast.unparse(each.expression) for each in behind_loss(code)] == ["loss", "f(x)"]
