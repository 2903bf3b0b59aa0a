"""Whether other code uses the value that a name holds where it is given to a call."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.pipeline import blocks
from lintrain.pipeline.record import Pipeline
from lintrain.source.nodes import own_nodes, walk

DESCRIBES = frozenset({"shape", "size", "dim", "ndim", "device", "dtype", "numel"})
"""Attributes and methods of a tensor that need none of its values."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def is_used_elsewhere(pipeline: Pipeline, name: str, around: Location) -> bool:
    """Whether a function reads a name again, before or after the statement `around`, while it holds the same value.

    What a parameter holds may also be used by a caller in the same file, before or after it calls the function.
    """
    function = blocks.scope_of(pipeline, around)
    if _times_read(function, name, around.line) > 1:
        return True
    is_given = not any(line < around.line for line in _binding_lines(function, name))
    return is_given and isinstance(function, Function) and _is_used_by_caller(pipeline, around, function, name)


def _times_read(function: ast.AST, name: str, line: int) -> int:
    """How often a function reads what a name holds at a line, from where it is bound to where it is bound again."""
    bound = list(_binding_lines(function, name))
    first = max((each for each in bound if each < line), default=0)
    last = min((each for each in bound if each >= line), default=None)
    return sum(first < each and (last is None or each <= last) for each in _reading_lines(function, name))


def _is_used_by_caller(pipeline: Pipeline, around: Location, function: Function, parameter: str) -> bool:
    """Whether a call gives a parameter a plain name that is read elsewhere too."""
    source, names = pipeline.source_of(around), [each.arg for each in function.args.args]
    for call in source.nodes_of(ast.Call) if parameter in names else ():
        if last_name(call.func) != function.name:
            continue
        is_method = isinstance(call.func, ast.Attribute) and names[0] == "self"
        index = names.index(parameter) - is_method
        by_name = {each.arg: each.value for each in call.keywords}
        given = call.args[index] if 0 <= index < len(call.args) else by_name.get(parameter)
        caller = blocks.scope_of(pipeline, source.location(call))
        if isinstance(given, ast.Name) and _times_read(caller, given.id, call.lineno) > 1:
            return True
    return False


def _binding_lines(function: ast.AST, name: str) -> Iterator[int]:
    """The last lines of the statements of a function that bind a name."""
    for node in own_nodes(function):
        match node:
            case ast.Assign(targets=targets):
                bound = targets
            case ast.AnnAssign(target=target) | ast.AugAssign(target=target) | ast.NamedExpr(target=target):
                bound = [target]
            case ast.For(target=target) | ast.AsyncFor(target=target):
                if _binds(target, name):
                    yield target.lineno
                continue
            case _:
                continue
        if any(_binds(target, name) for target in bound):
            yield node.end_lineno or node.lineno


def _binds(target: ast.expr, name: str) -> bool:
    return any(isinstance(node, ast.Name) and node.id == name for node in walk(target))


def _reading_lines(function: ast.AST, name: str) -> Iterator[int]:
    """The lines where a function reads the values that a name holds."""
    nodes = own_nodes(function)
    described = {id(node.value) for node in nodes if isinstance(node, ast.Attribute) and node.attr in DESCRIBES}
    printed = {
        id(each)
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
        for each in walk(node)
    }
    unused = described | printed
    for node in nodes:
        match node:
            case ast.Name(id=read, ctx=ast.Load()) if read == name and id(node) not in unused:
                yield node.lineno
            case _:
                pass
