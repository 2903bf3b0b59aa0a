"""Calls of a Trainer that the script makes only below the running lines, read from its text."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator

from lintrain.runtime.child.frames import is_users, shown


def comes_later(methods: tuple[str, ...]) -> Iterator[str]:
    """Such calls, as "`trainer.test(…)` at train.py:40"."""
    frame = inspect.currentframe()
    while frame is not None:
        path = frame.f_code.co_filename
        if is_users(path):
            for node in ast.walk(_tree(path)):
                if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                    continue
                if node.func.attr in methods and node.lineno > frame.f_lineno and "rainer" in ast.unparse(node.func):
                    yield f"`{ast.unparse(node.func)}(…)` at {shown(path)}:{node.lineno}"
        frame = frame.f_back


def _tree(path: str) -> ast.Module:
    try:
        with open(path, encoding="utf-8") as opened:
            return ast.parse(opened.read())
    except (OSError, SyntaxError, ValueError):
        return ast.Module([], [])
