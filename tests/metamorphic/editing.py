"""Edits of a script: expressions replaced, statements inserted after the imports."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from tests.metamorphic.script import Line, Script


def replaced(script: Script, texts: Mapping[ast.expr, str]) -> Script:
    """The script with other code for these expressions, which do not contain each other; SyntaxError if it is wrong."""
    lines: list[Line | None] = list(script.lines)
    for node, text in sorted(texts.items(), key=lambda item: (item[0].lineno, item[0].col_offset), reverse=True):
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        covered = [line for line in lines[first : last + 1] if line]
        before = covered[0].text.encode()[: node.col_offset].decode()
        after = covered[-1].text.encode()[node.end_col_offset :].decode()
        lines[first] = merged(before + text + after, covered)
        lines[first + 1 : last + 1] = [None] * (last - first)
    made = replace(script, lines=tuple(line for line in lines if line))
    ast.parse(made.text)
    return made


def merged(text: str, lines: Sequence[Line]) -> Line:
    """One line that replaces several."""
    origins = [origin for line in lines for origin in line.origins if origin]
    return Line(text, origins[0] if origins else 0, tuple(origins[1:]))


def after_imports(script: Script, texts: Iterable[str]) -> Script:
    """The script with these lines after the docstring and the first imports."""
    first = next((node for node in script.tree.body if not _belongs_to_head(node)), None)
    number = script.span(first)[0] if first else len(script.lines) + 1
    return script.with_lines({(number, number - 1): [Line(text) for text in texts]})


def _belongs_to_head(node: ast.stmt) -> bool:
    is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_docstring or isinstance(node, ast.Import | ast.ImportFrom)


def outside_strings(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node outside of f-strings, in which positions are wrong before Python 3.12."""
    yield tree
    if not isinstance(tree, ast.JoinedStr):
        for child in ast.iter_child_nodes(tree):
            yield from outside_strings(child)


def name_of_call(call: ast.Call) -> str:
    """The last part of what is called: `DataLoader` for `torch.utils.data.DataLoader(…)`."""
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""


def literal(node: ast.AST) -> int | float | str | bool | None:
    """The number, text or truth value that an expression is; None for any other."""
    match node:
        case ast.Constant(value=int() | float() | str() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case _:
            return None
