"""What the text of the script's own files says about an object that a run has shown: asked only where it is needed."""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Iterator
from types import FrameType
from typing import TypeGuard

from lintrain.model.location import Location
from lintrain.runtime.child.frames import characters, code_at, frame_location, shown
from lintrain.runtime.child.own_files import own_files


def assignment_to(owner: str, *attributes: str) -> Location | None:
    """The statement that assigns one of some attributes of an object called so, else the first that assigns one."""
    found = list(_assignments(frozenset(attributes)))
    named = (location for location, name in found if owner and name == owner)
    return next(named, found[0][0] if found else None)


def _assignments(attributes: frozenset[str]) -> Iterator[tuple[Location, str]]:
    for path in own_files():
        for node in ast.walk(_tree(path)):
            match node:
                case ast.Assign(targets=[ast.Attribute(value=owner, attr=name)]) if name in attributes:
                    yield _location(path, node), ast.unparse(owner).rpartition(".")[2]
                case _:
                    pass


def last_freeze(before: Location | None) -> Location | None:
    """The last statement that freezes weights, above a location where that is in the same file; None without one."""
    found = [_location(path, node) for path in own_files() for node in ast.walk(_tree(path)) if _freezes(node)]
    above = [each for each in found if before is not None and each.path == before.path and each.line < before.line]
    return max(above or found, key=lambda each: each.line, default=None)


def _freezes(node: ast.AST) -> TypeGuard[ast.stmt]:
    match node:
        case ast.Assign(targets=[ast.Attribute(attr="requires_grad")], value=ast.Constant(value=False)):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="requires_grad_"), args=[ast.Constant(value=False)])):
            return True
        case _:
            return False


def only_call(function: str) -> Location | None:
    """The only statement that calls a function by its whole name, or None if there are several, or none.

    Of `.argmax` it is a function or method of this name, of whatever.
    """
    found = {
        _location(path, node)
        for path in own_files()
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Expr | ast.Assign | ast.Return)
        if any(isinstance(part, ast.Call) and _is_called(part.func, function) for part in ast.walk(node))
    }
    return found.pop() if len(found) == 1 else None


def _is_called(callee: ast.expr, function: str) -> bool:
    name = ast.unparse(callee)
    return name.endswith(function) if function.startswith(".") else name == function


def names_sizes(frame: FrameType) -> bool:
    """Whether the call that a frame is at gets only sizes of tensors, by names that are unpacked from a shape."""
    tree = _tree(frame.f_code.co_filename)
    unpacked = {name for node in ast.walk(tree) if isinstance(node, ast.Assign) for name in _unpacked(node)}
    try:
        call = ast.parse(code_at(frame_location(frame)) or "None", mode="eval").body
    except SyntaxError:  # before Python 3.11 the whole line
        return False
    match call:
        case ast.Call(args=[_, _, *_] as given, keywords=[]):
            return all(_is_size(each) or (isinstance(each, ast.Name) and each.id in unpacked) for each in given)
        case _:
            return False


def _unpacked(node: ast.Assign) -> Iterator[str]:
    """The names to which a statement assigns sizes: `rows, steps = x.shape`, `rows = x.size(0)`."""
    for target in node.targets:
        match target, node.value:
            case ast.Tuple(elts=names), ast.Attribute(attr="shape") | ast.Call(
                func=ast.Attribute(attr="size"), args=[]
            ):
                yield from (each.id for each in names if isinstance(each, ast.Name))
            case ast.Tuple(elts=names), ast.Call(func=ast.Attribute(attr="size"), args=[]):
                yield from (each.id for each in names if isinstance(each, ast.Name))
            case ast.Name(id=name), value if _is_size(value):
                yield name
            case _:
                pass


def _is_size(node: ast.expr) -> bool:
    match node:
        case ast.Subscript(value=ast.Attribute(attr="shape")) | ast.Call(func=ast.Attribute(attr="size"), args=[_]):
            return True
        case _:
            return False


def mentions(pattern: str) -> bool:
    """Whether a file of the script has a text, in code or comments."""
    searched = re.compile(pattern, re.IGNORECASE)
    return any(searched.search("".join(linecache.getlines(path))) for path in own_files())


def _tree(path: str) -> ast.Module:
    try:
        return ast.parse("".join(linecache.getlines(path)))
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def _location(path: str, node: ast.stmt) -> Location:
    end, last = node.end_lineno or node.lineno, node.end_col_offset or 0
    start = characters(path, node.lineno, node.col_offset)
    return Location(shown(path), node.lineno, start, end, characters(path, end, last))
