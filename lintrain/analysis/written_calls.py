"""Calls found by how they are written: by the code of what is called, in a method, and in a piece of code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from lintrain.analysis.expressions import Expression, calls_in_file, parsed
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.python import Class
from lintrain.source.parsing import expression_of
from lintrain.source.source import Source


def calls_of(source: Source, pattern: str) -> Sequence[Expression]:
    """The calls of a file in whose callee's code a regular expression matches, outer ones first."""
    return [call for callee, call in source.cached(_calls_by_callee) if re.search(pattern, callee)]


def _calls_by_callee(source: Source) -> list[tuple[str, Expression]]:
    """The calls of a file with the code of what they call, which takes long to write."""
    return [(call.callee.code, call) for call in calls_in_file(source) if call.callee]


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


def calls_in_method(pipeline: Pipeline, cls: Class, method: str) -> Iterator[Expression]:
    """The calls in a method of a class, except in statements of its body that are an `if` or a `try`."""
    body = next(
        (node.body for node in cls.node.body if isinstance(node, ast.FunctionDef) and node.name == method),
        list[ast.stmt](),
    )
    source = pipeline.source_of(cls.origin) if cls.origin else pipeline.source
    for statement in body:
        for node in ast.walk(statement) if not isinstance(statement, ast.If | ast.Try) else ():
            if isinstance(node, ast.Call):
                yield Expression(source, node)


def only_argument_in(code: str, name: str) -> str | None:
    """The code of the only argument of a call, if it is passed by position or by this name; None for other code."""
    call = parsed(code)
    if call.keywords.keys() - {name}:
        return None
    given = [*call.arguments, *call.keywords.values()]
    return given[0].written_code if len(given) == 1 else None


def keywords_in(code: str) -> frozenset[str]:
    """The names of the keyword arguments of all calls in an expression, which may have several lines."""
    names = (node.arg for node in ast.walk(expression_of(f"({code})")) if isinstance(node, ast.keyword))
    return frozenset(name for name in names if name is not None)
