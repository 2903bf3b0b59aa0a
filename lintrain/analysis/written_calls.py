"""Calls as they are written: the code of what is called, and of the arguments."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.python import Class
from lintrain.source.parsing import expression_of
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A call with the normalized code of its callee and of its positional arguments."""

    location: Location
    callee: str
    arguments: tuple[str, ...]
    has_keywords: bool


def calls_of(source: Source, pattern: str) -> Sequence[WrittenCall]:
    """The calls of a file in whose callee's code a regular expression matches, outer ones first."""
    found = source.cached(_callees)
    return [_written(source, node, callee) for node, callee in found if re.search(pattern, callee)]


def _callees(source: Source) -> list[tuple[ast.Call, str]]:
    return [(node, ast.unparse(node.func)) for node in source.nodes_of(ast.Call)]


def _written(source: Source, node: ast.Call, callee: str) -> WrittenCall:
    return WrittenCall(source.location(node), callee, tuple(map(ast.unparse, node.args)), bool(node.keywords))


def called_names(source: Source) -> frozenset[str]:
    """The last part of each name that a file calls: `save` of `torch.save(…)`."""
    callees = (node.func for node in source.nodes_of(ast.Call))
    return frozenset(
        node.id if isinstance(node, ast.Name) else node.attr
        for node in callees
        if isinstance(node, ast.Name | ast.Attribute)
    )


def methods_called_as_statements(source: Source) -> frozenset[str]:
    """The methods that a file calls in statements of their own, so that their results are discarded."""
    values = (node.value for node in source.nodes_of(ast.Expr))
    callees = (value.func for value in values if isinstance(value, ast.Call))
    return frozenset(callee.attr for callee in callees if isinstance(callee, ast.Attribute))


def calls_in_method(pipeline: Pipeline, cls: Class, method: str) -> Iterator[WrittenCall]:
    """The calls in a method of a class, except in statements of its body that are an `if` or a `try`."""
    body = next(
        (node.body for node in cls.node.body if isinstance(node, ast.FunctionDef) and node.name == method),
        list[ast.stmt](),
    )
    source = pipeline.source_of(cls.origin) if cls.origin else pipeline.source
    for statement in body:
        for node in ast.walk(statement) if not isinstance(statement, ast.If | ast.Try) else ():
            if isinstance(node, ast.Call):
                yield _written(source, node, ast.unparse(node.func))


def receiver_in(code: str) -> str | None:
    """The code of what a method is called on: `rows` of `rows.select(range(100))`; None for other code."""
    try:
        call = expression_of(code)
    except SyntaxError:
        return None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    return ast.get_source_segment(code, call.func.value)


def only_argument_in(code: str, name: str) -> str | None:
    """The code of the only argument of a call, if it is passed by position or by this name; None for other code."""
    call = expression_of(code)
    if not isinstance(call, ast.Call) or any(keyword.arg != name for keyword in call.keywords):
        return None
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return ast.get_source_segment(code, given[0]) if len(given) == 1 else None


def keywords_in(code: str) -> frozenset[str]:
    """The names of the keyword arguments of all calls in an expression, which may have several lines."""
    names = (node.arg for node in ast.walk(expression_of(f"({code})")) if isinstance(node, ast.keyword))
    return frozenset(name for name in names if name is not None)
