"""Whether a mapped function gives another number of rows than it gets."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.pipeline.values.data import ColumnValues, Encoding, Rows
from lintrain.pipeline.values.python import Bound, Function, Mapping, Partial, Value, is_true

OVERFLOWING = "return_overflowing_tokens"


def recounts(function: Value, result: Value) -> bool:
    """Whether a function for batches certainly gives another number of rows: windows of long texts, or blocks."""
    match function:
        case Partial(function=inner):
            return recounts(inner, result)
        case Bound(function=Function() as own) | (Function() as own):
            return _has_windows(result) or _cuts_blocks(own)
        case _:
            return False


def copies_of(result: Value, rows: Rows) -> tuple[str, ...]:
    """The columns of a result that hold the values of the rows that the function got, one for each."""
    entries = result.entries if isinstance(result, Mapping) else result.items if isinstance(result, Encoding) else {}
    return tuple(name for name, value in entries.items() if isinstance(name, str) and _is_copy(value, rows))


def _is_copy(value: Value, rows: Rows) -> bool:
    return isinstance(value, ColumnValues) and value.dataset is rows and not value.stretch and value.whole is None


def _has_windows(result: Value) -> bool:
    """Whether a text may become several rows: the tokenizer returns what it cuts off as further ones."""
    if not isinstance(result, Encoding) or not result.truncated:
        return False
    return is_true(result.arguments[OVERFLOWING]) if OVERFLOWING in result.arguments else False


def _cuts_blocks(function: Function) -> bool:
    """Whether a function returns tokens that it cut into blocks: `[t[i : i + size] for i in range(0, n, size)]`."""
    body = function.node.body
    if not isinstance(body, list):
        return False
    blocks = {name for statement in body for name in _names_of_blocks(statement)}
    returned = [statement.value for statement in body if isinstance(statement, ast.Return)]
    return any(
        (isinstance(value, ast.Name) and value.id in blocks) or (value is not None and _is_blocks(value))
        for value in returned
    )


def _names_of_blocks(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_blocks(value):
            yield name
        case _:
            pass


def _is_blocks(node: ast.expr) -> bool:
    match node:
        case ast.DictComp(value=ast.ListComp() as rows):
            return _is_cut(rows)
        case ast.Dict(values=values):
            return any(isinstance(value, ast.ListComp) and _is_cut(value) for value in values)
        case _:
            return False


def _is_cut(node: ast.ListComp) -> bool:
    match node:
        case ast.ListComp(
            elt=ast.Subscript(slice=ast.Slice(lower=ast.Name(id=first), upper=ast.BinOp(op=ast.Add()))),
            generators=[
                ast.comprehension(
                    target=ast.Name(id=target), iter=ast.Call(func=ast.Name(id="range"), args=[_, stop, _])
                )
            ],
        ):
            # `range(0, len(v), 4)` puts back together what was taken apart: the choices of each question.
            return first == target and isinstance(stop, ast.Name)
        case _:
            return False
