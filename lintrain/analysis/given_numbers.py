"""The numbers that a file gives a name: by assignments, defaults, keywords and options of the command line."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Set

from lintrain.analysis import loss_terms
from lintrain.source.nodes import unparse
from lintrain.source.source import Source

Given = Mapping[str, Set[float | None]]
"""By name, the literal numbers that it is given; None if it is given something else too."""


def given_numbers(source: Source) -> Given:
    """The numbers of all names and attributes of a file, by their last part."""
    return source.cached(_given_numbers)


def number_of(source: Source, node: ast.expr) -> float | None:
    """The number that an expression certainly is, or the only one that its name is given in a file."""
    match node:
        case ast.Constant(value=bool()):
            return None
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            positive = number_of(source, inner)
            return None if positive is None else -positive
        case ast.Name(id=name) | ast.Attribute(attr=name):
            found = given_numbers(source).get(name, set())
            return next(iter(found)) if len(found) == 1 else None
        case _:
            return None


def _given_numbers(source: Source) -> dict[str, set[float | None]]:
    found = dict[str, set[float | None]]()
    links = list[tuple[str, str]]()
    for name, value in _gifts(source):
        match value:
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                found.setdefault(name, set()).add(float(number))
            case ast.Constant(value=None) | None:
                pass
            case ast.Name(id=other) | ast.Attribute(attr=other) if other == name:
                pass
            case ast.Name(id=other) | ast.Attribute(attr=other):
                links.append((name, other))
            case _:
                found.setdefault(name, set()).add(None)
    for name, other in links:
        found.setdefault(name, set()).update(found.get(other, set()))
    return found


def _gifts(source: Source) -> Iterator[tuple[str, ast.expr | None]]:
    """The names of a file, each with an expression that it is given."""
    for node in source.nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name) | ast.Attribute(attr=name)], value=value):
                yield name, value
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                for each, one in zip(names, values, strict=False):
                    if isinstance(each, ast.Name | ast.Attribute):
                        yield each.id if isinstance(each, ast.Name) else each.attr, one
            case ast.Assign(targets=[ast.Tuple(elts=names)]):
                yield from ((each.id, node.value) for each in names if isinstance(each, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name) | ast.Attribute(attr=name), value=value):
                yield name, value
            case ast.keyword(arg=str() as name, value=value):
                yield name, value
            case ast.arguments(args=parameters, defaults=defaults):
                for parameter, default in zip(reversed(parameters), reversed(defaults), strict=False):
                    yield parameter.arg, default
            case ast.Call(func=ast.Attribute(attr="add_argument"), args=[*_, ast.Constant(value=str() as option)]):
                given = [each.value for each in node.keywords if each.arg == "default"]
                yield option.lstrip("-").replace("-", "_"), given[0] if given else None
            case _:
                pass
    for call, function in _calls(source):
        for parameter, value in zip(function.args.args, call.args, strict=False):
            yield parameter.arg, value


def _calls(source: Source) -> Iterator[tuple[ast.Call, ast.FunctionDef]]:
    """The calls of the functions of a file that are no methods."""
    functions = {each.name: each for each in source.tree.body if isinstance(each, ast.FunctionDef)}
    for call in source.nodes_of(ast.Call):
        if isinstance(call.func, ast.Name) and call.func.id in functions:
            yield call, functions[call.func.id]


def starts_of(source: Source, target: ast.expr, update: ast.expr) -> list[float | None]:
    """The numbers that a name or attribute is given in statements other than an update of it."""
    values = loss_terms.assigned(source, unparse(target))
    return [number_of(source, each) for each in values if each is not update]
