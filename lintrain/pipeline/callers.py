"""How a file calls its own plain functions: under which names things go on in them, and where they were called from."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator

from lintrain.model.location import Location
from lintrain.pipeline.blocks import returned_in, scope_of
from lintrain.pipeline.record import Pipeline
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class PlainFunction:
    """A function of a file's top level that the file does nothing with but call it."""

    node: ast.FunctionDef
    calls: tuple[ast.Call, ...]


def plain_functions(source: Source) -> dict[str, PlainFunction]:
    """Such functions of a file by name, if it calls them at all; each name means one thing everywhere in it."""
    calls = defaultdict[str, list[ast.Call]](list)
    for call in source.nodes_of(ast.Call):
        if isinstance(call.func, ast.Name):
            calls[call.func.id].append(call)
    uses = Counter(node.id for node in source.nodes_of(ast.Name))
    defined = Counter(node.name for node in source.nodes_of(ast.FunctionDef))
    defined.update(node.name for node in source.nodes_of(ast.AsyncFunctionDef))
    defined.update(node.name for node in source.nodes_of(ast.ClassDef))
    defined.update(node.arg for node in source.nodes_of(ast.arg))
    defined.update(node.asname or node.name for node in source.nodes_of(ast.alias))
    functions = [node for node in source.tree.body if isinstance(node, ast.FunctionDef) and not node.decorator_list]
    return {
        node.name: PlainFunction(node, tuple(calls[node.name]))
        for node in functions
        if defined[node.name] == 1 and 0 < len(calls[node.name]) == uses[node.name]
    }


def handed_on(source: Source) -> dict[ast.Name, tuple[str, ...]]:
    """The uses of names that only give a thing to a plain function, or back to its caller, with its names there."""
    found = dict(source.cached(given_back))
    for function in source.cached(plain_functions).values():
        for call in function.calls:
            found.update((given, (name,)) for name, given in given_names(function.node.args, call).items())
    return found


def given_back(source: Source) -> dict[ast.Name, tuple[str, ...]]:
    """The names in what plain functions return, with the one that each call of the function binds it to."""
    targets = {each.value: each.targets for each in source.nodes_of(ast.Assign)}
    return {
        part: names
        for function in source.cached(plain_functions).values()
        for returned in returned_in(function.node.body)
        for part, names in _bound_by(returned, [targets.get(call, []) for call in function.calls])
    }


def given_names(arguments: ast.arguments, call: ast.Call, first: int = 0) -> dict[str, ast.Name]:
    """The names in a call by the parameters that get their values; `first` is the first one that it gives."""
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)][first:]
    stars = [index for index, each in enumerate(call.args) if isinstance(each, ast.Starred)]
    given: list[tuple[str | None, ast.expr]] = list(zip(names, call.args[: stars[0] if stars else None], strict=False))
    given += [(each.arg, each.value) for each in call.keywords]
    known = {*names, *(each.arg for each in arguments.kwonlyargs)}
    return {name: value for name, value in given if name in known and name and isinstance(value, ast.Name)}


def _bound_by(returned: ast.expr, results: list[list[ast.expr]]) -> Iterator[tuple[ast.Name, tuple[str, ...]]]:
    """The returned names, if every call binds their values to one name each."""
    parts = _parts(returned)
    bound = [_parts(targets[0]) for targets in results if len(targets) == 1]
    if len(bound) < len(results) or any(len(targets) != len(parts) for targets in bound):
        return
    for part, targets in zip(parts, zip(*bound, strict=True), strict=True):
        names = tuple(target.id for target in targets if isinstance(target, ast.Name))
        if isinstance(part, ast.Name) and len(names) == len(bound):
            yield part, names


def _parts(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]


def spread_names(source: Source, names: set[str]) -> tuple[set[str], set[ast.Name]]:
    """These names with those that the same thing gets in plain functions, and from them; and where it is handed on."""
    table = source.cached(handed_on)
    known = set(names)
    while further := {name for node, given in table.items() if node.id in known for name in given} - known:
        known |= further
    return known, {node for node in table if node.id in known}


def way_out(pipeline: Pipeline, location: Location) -> list[tuple[ast.AST, Location]]:
    """The function around it; the function around the only call of it, with that call; and so on to the module."""
    source = pipeline.source_of(location)
    functions: dict[ast.AST, PlainFunction] = {each.node: each for each in source.cached(plain_functions).values()}
    found = [(scope_of(pipeline, location), location)]
    while (function := functions.get(found[-1][0])) and len(function.calls) == 1 and len(found) < len(functions) + 2:
        location = source.location(function.calls[0])
        found.append((scope_of(pipeline, location), location))
    return found
