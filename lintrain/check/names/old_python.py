"""Code that only Python 2 runs, which may use names that Python 3 no longer has."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.source.nodes import unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_pattern import lazy_pattern

PYTHON_2 = lazy_pattern(
    r"(?:six\.)?PY2|not (?:six\.)?PY3|sys\.version_info(?:\[0\]|\.major) (?:< 3|<= 2|== 2)"
    r"|sys\.version_info < \(3,(?: 0)?\)"
)
PYTHON_3 = lazy_pattern(
    r"(?:six\.)?PY3|not (?:six\.)?PY2|sys\.version_info(?:\[0\]|\.major) (?:>= 3|> 2|== 3)"
    r"|sys\.version_info >= \(3,(?: 0)?\)"
)
"""Tests of which Python runs the script."""


def branches(source: Source) -> Iterator[ast.stmt]:
    """The statements under a test that only Python 2 passes."""
    for branch in source.nodes_of(ast.If):
        test = unparse(branch.test)
        if PYTHON_2.fullmatch(test):
            yield from branch.body
        elif PYTHON_3.fullmatch(test):
            yield from branch.orelse


def expressions(source: Source) -> Iterator[ast.expr]:
    """The parts of expressions behind such a test: `sys.version_info[0] == 2 and isinstance(text, unicode)`."""
    for chain in source.nodes_of(ast.BoolOp):
        ends = PYTHON_2 if isinstance(chain.op, ast.And) else PYTHON_3
        tests = (index for index, value in enumerate(chain.values) if ends.fullmatch(unparse(value)))
        yield from chain.values[next(tests, len(chain.values)) + 1 :]
    for choice in source.nodes_of(ast.IfExp):
        test = unparse(choice.test)
        if PYTHON_2.fullmatch(test):
            yield choice.body
        elif PYTHON_3.fullmatch(test):
            yield choice.orelse
