"""Two views of an image that are one: a random transform is called once, and its result is used as both."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_pattern import lazy_pattern

TRANSFORMS = lazy_pattern(r"(?i)transform|augment|(?:^|_)aug(?:_|$)|_view$|^view_|jitter")
CALLED = lazy_pattern(r"(?i)= [\w.]*(?:transform|augment|_aug|\baug|jitter|_view)\w*\(")
ONE_AS_TWO = lazy_pattern(r"return[ (\[]*(\w+), \1\b|^\s*\w+ = \w+$|^\s*\w+ = \w+ = ", re.MULTILINE)
MOVES = frozenset({"to", "cuda", "float", "half"})


def same_views(source: Source) -> Iterator[Location]:
    """Where a file gives one view of an image as two, that a network then gets one after the other."""
    if not (source.contains(CALLED) and source.contains(ONE_AS_TWO)):
        return
    for scope in (source.tree, *source.nodes_of(ast.FunctionDef)):
        nodes = own_nodes(scope)
        if isinstance(scope, ast.FunctionDef):
            yield from (source.location(each) for each in _returned_twice(nodes) if _has_pairs(source))
        yield from (source.location(each) for each in _renamed(nodes))


def _returned_twice(nodes: Sequence[ast.AST]) -> Iterator[ast.expr]:
    """The pairs that a function returns of the one result of a transform: `return view, view`."""
    views = _views(nodes)
    for node in nodes:
        for pair in walk(node) if isinstance(node, ast.Return) else ():
            match pair:
                case (
                    ast.Tuple(elts=[ast.Name(id=one), ast.Name(id=other), *_])
                    | ast.List(elts=[ast.Name(id=one), ast.Name(id=other)])
                ) if one == other and one in views:
                    yield pair
                case _:
                    pass


def _views(nodes: Sequence[ast.AST]) -> set[str]:
    """The names that are given the result of a transform, and nothing else."""
    given = dict[str, list[ast.expr]]()
    for node in nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                given.setdefault(unparse(target), []).append(node.value)
    return {name for name, values in given.items() if len(values) == 1 and _is_transformed(values[0])}


def _is_transformed(value: ast.expr) -> bool:
    match value:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return TRANSFORMS.search(name) is not None
        case _:
            return False


def _has_pairs(source: Source) -> bool:
    """Whether a loop of a file gives a network both parts of a pair, one after the other."""
    for loop in source.nodes_of(ast.For):
        for pair in walk(loop.target):
            if isinstance(pair, ast.Tuple) and all(isinstance(each, ast.Name) for each in pair.elts[:2]):
                names = [unparse(each) for each in pair.elts[:2]]
                if len(names) == 2 and _both_reach(walk(loop), *names):
                    return True
    return False


def _both_reach(nodes: Sequence[ast.AST], one: str, other: str) -> bool:
    """Whether two names are the first arguments of calls of the same thing, as they are or moved to a device."""
    callees: dict[str, set[str]] = {one: set(), other: set()}
    for node in nodes:
        if isinstance(node, ast.Call) and node.args and (name := _bare(node.args[0])) in callees:
            callees[name].add(unparse(node.func))
    return bool(callees[one] & callees[other])


def _bare(node: ast.expr) -> str:
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in MOVES:
            return _bare(inner)
        case ast.Name(id=name):
            return name
        case _:
            return ""


def _renamed(nodes: Sequence[ast.AST]) -> Iterator[ast.Assign]:
    """The statements that give one view two names, both of which a network gets: `second = first`."""
    views = _views(nodes)
    assigns = [each for each in nodes if isinstance(each, ast.Assign)]
    for node in assigns if views else ():
        match node:
            case ast.Assign(targets=[ast.Name(id=one), ast.Name(id=other)], value=value) if _is_transformed(value):
                is_alone = {one, other} <= views
            case ast.Assign(targets=[ast.Name(id=other)], value=ast.Name(id=one)) if one in views:
                is_alone = sum(other in map(unparse, each.targets) for each in assigns) == 1
            case _:
                continue
        if is_alone and one != other and _both_reach(nodes, one, other):
            yield node
