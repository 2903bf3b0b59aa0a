"""What a name stands for when other code of the file gives it: a parameter, one of several results, an attribute.

`train, test = read("x")` and `def score(model, images)` do not show what `test` and `images` are; the function that
returns them and the one call that passes them do.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from lintrain.analysis import origins
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source


def given_to(source: Source, name: ast.Name | ast.Attribute) -> ast.expr | None:
    """What a name certainly stands for: what it was given, a parameter's argument, an attribute of `self`."""
    for each in list(origins.origins(source, name))[1:]:
        if each.is_certain or _is_by_default(source, each.expression):
            return _part(source, each.expression, unparse(name))
    if isinstance(name, ast.Name):
        return _argument(source, name) or source.cached(_of_module).get(name.id)
    if isinstance(name.value, ast.Name) and name.value.id == "self":
        given = source.cached(_attributes).get(name.attr, [])
        return given[0] if len(given) == 1 else None
    return None


def _part(source: Source, value: ast.expr, name: str) -> ast.expr:
    """The part of a value that a name gets: of a tuple, or of what a function of the file returns."""
    target = source.cached(_unpacked).get(value)
    names = [unparse(each) for each in target.elts] if target is not None else []
    if names.count(name) != 1:
        return value
    parts = returned(source, value) if isinstance(value, ast.Call) else value
    is_whole = isinstance(parts, ast.Tuple) and len(parts.elts) == len(names)
    return parts.elts[names.index(name)] if isinstance(parts, ast.Tuple) and is_whole else value


def _unpacked(source: Source) -> dict[ast.expr, ast.Tuple]:
    """The tuples of names that values are assigned to."""
    found: dict[ast.expr, ast.Tuple] = {}
    for node in source.nodes_of(ast.Assign):
        if isinstance(node.targets[0], ast.Tuple):
            found[node.value] = node.targets[0]
    return found


def _is_by_default(source: Source, value: ast.expr) -> bool:
    """Whether a value is given under `if shuffle:`, for a parameter that is True unless a call says otherwise."""
    line = value.lineno
    for node in source.nodes_of(ast.If):
        if isinstance(node.test, ast.Name) and node.body[0].lineno <= line <= (node.body[-1].end_lineno or 0):
            default = default_of(source, node.test)
            return isinstance(default, ast.Constant) and default.value is True
    return False


def default_of(source: Source, name: ast.Name) -> ast.expr | None:
    """The default of a parameter that no call of the file passes."""
    function = _function_around(source, name.lineno)
    if function is None:
        return None
    calls = source.cached(_calls_of_own).get(function.name, [])
    is_passed = any(_passed(function, call, name.id) is not None for call in calls)
    return None if is_passed else _defaults(function).get(name.id)


def _defaults(function: ast.FunctionDef) -> dict[str, ast.expr]:
    given = function.args.args[len(function.args.args) - len(function.args.defaults) :]
    return {each.arg: default for each, default in zip(given, function.args.defaults, strict=True)}


def _function_around(source: Source, line: int) -> ast.FunctionDef | None:
    around = [each for each in source.nodes_of(ast.FunctionDef) if each.lineno <= line <= (each.end_lineno or 0)]
    return max(around, key=lambda each: each.lineno, default=None)


def _argument(source: Source, name: ast.Name) -> ast.expr | None:
    """What the only call of a function or class of the file passes for one of its parameters."""
    function = _function_around(source, name.lineno)
    if function is not None and function.name == "__init__":
        return _given_to_constructor(source, function, name)
    calls = source.cached(_calls_of_own).get(function.name, []) if function is not None else []
    if function is None or len(calls) != 1 or len(functions_of(source, function.name)) != 1:
        return None
    return _passed(function, calls[0], name.id)


def _given_to_constructor(source: Source, function: ast.FunctionDef, name: ast.Name) -> ast.expr | None:
    """What the only call of a class of the file, which no other one derives from, passes for a parameter."""
    owner = next((each for each in source.nodes_of(ast.ClassDef) if function in each.body), None)
    uses = [each for each in source.nodes_of(ast.Name) if owner is not None and each.id == owner.name]
    calls = [each for each in source.nodes_of(ast.Call) if isinstance(each.func, ast.Name) and each.func in uses]
    return _passed(function, calls[0], name.id) if len(uses) == 1 and len(calls) == 1 else None


def _passed(function: ast.FunctionDef | None, call: ast.Call, name: str) -> ast.expr | None:
    """What a call passes for a parameter; None also if that is not known."""
    named = {each.arg: each.value for each in call.keywords}
    names = [each.arg for each in function.args.args if each.arg != "self"] if function is not None else []
    if name not in names or any(isinstance(each, ast.Starred) for each in call.args):
        return None
    position = names.index(name)
    return call.args[position] if position < len(call.args) else named.get(name)


def _calls_of_own(source: Source) -> dict[str, list[ast.Call]]:
    """The calls of the functions and methods of a file, by their names."""
    own = source.cached(_functions)
    found: dict[str, list[ast.Call]] = {}
    for call in source.nodes_of(ast.Call):
        name = plain_name(call.func)
        if name in own:
            found.setdefault(name, []).append(call)
    return found


def plain_name(node: ast.expr) -> str:
    """The name of what is called: a function's own, or that of a method of `self` or an object."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _of_module(source: Source) -> dict[str, ast.expr]:
    """What the names of a module are given that no other code of the file binds."""
    bound = [each.id for each in source.nodes_of(ast.Name) if not isinstance(each.ctx, ast.Load)]
    bound += [each.arg for each in source.nodes_of(ast.arg)]
    found: dict[str, ast.expr] = {}
    for node in source.tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if bound.count(name) == 1:
                found[name] = value
            case _:
                pass
    return found


def _attributes(source: Source) -> dict[str, list[ast.expr]]:
    """What attributes of `self` are given, by their names."""
    found: dict[str, list[ast.expr]] = {}
    for node in source.nodes_of(ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
                found.setdefault(target.attr, []).append(node.value)
    for call in source.nodes_of(ast.Call):
        match call:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="self"), attr="register_buffer"),
                args=[ast.Constant(value=str() as name), value, *_],
            ):
                found.setdefault(name, []).append(value)
            case _:
                pass
    return found


def returned(source: Source, call: ast.Call) -> ast.expr | None:
    """What a function or method of the file returns, if it is the only one of its name and has one `return`."""
    functions = functions_of(source, plain_name(call.func))
    if len(functions) != 1:
        return None
    returns = [node.value for node in walk(functions[0]) if isinstance(node, ast.Return)]
    # A guard that gives up: `return None, None, None`.
    real = [each for each in returns if each is not None and not _is_nothing(each)]
    return real[0] if len(real) == 1 else None


def _is_nothing(node: ast.expr) -> bool:
    parts: Sequence[ast.expr] = node.elts if isinstance(node, ast.Tuple) else [node]
    return all(isinstance(each, ast.Constant) and each.value is None for each in parts)


def functions_of(source: Source, name: str) -> list[ast.FunctionDef]:
    """The functions and methods of a file that have a name."""
    return source.cached(_functions).get(name, [])


def _functions(source: Source) -> dict[str, list[ast.FunctionDef]]:
    found: dict[str, list[ast.FunctionDef]] = {}
    for node in source.nodes_of(ast.FunctionDef):
        found.setdefault(node.name, []).append(node)
    return found
