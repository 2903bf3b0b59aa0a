"""The expression that raised an error, in the frames of its traceback, and where the values in it come from."""

from __future__ import annotations

import ast
import functools
import linecache
import re
from collections.abc import Iterator
from itertools import islice
from types import FrameType, TracebackType
from typing import Any

from lintrain.runtime.child.library import is_dictionary, is_row
from lintrain.startup.lazy_dataclass import dataclass

DEEPEST = 4
"""Assignments that a value is followed through."""
MISSING = object()
OWN = "lintrain/runtime"


@dataclass(frozen=True)
class Raised:
    """A frame that an error went through; `node` is the expression that it was evaluating, or its whole statement."""

    frame: FrameType
    line: int
    node: ast.AST


def raised(error: BaseException) -> Iterator[Raised]:
    """The frames of an error, the innermost first, without those of lintrain."""
    traceback = error.__traceback__
    found: list[TracebackType] = []
    while traceback is not None:
        found.append(traceback)
        traceback = traceback.tb_next
    # From the inside out: the innermost frame of a library often holds the value that it cannot use.
    for each in reversed(found):
        file = each.tb_frame.f_code.co_filename
        if OWN in file.replace("\\", "/"):
            continue
        node = _node(each)
        if node is not None:
            yield Raised(each.tb_frame, each.tb_lineno, node)


def callers_of(error: BaseException) -> Iterator[str]:
    """The files of the frames that an error went through, the innermost first, without the system of imports."""
    traceback = error.__traceback__
    files = list[str]()
    while traceback is not None:
        files.append(traceback.tb_frame.f_code.co_filename)
        traceback = traceback.tb_next
    yield from (each for each in reversed(files) if "importlib" not in each and OWN not in each.replace("\\", "/"))


def signature(error: BaseException) -> tuple[str, ...]:
    """What tells an error from others: its class, its text without numbers, and the expression that raised it."""
    where = next(raised(error), None)
    code = where.frame.f_code if where is not None else None
    expression = (code.co_filename, ast.dump(where.node, include_attributes=True)) if where is not None and code else ()
    return (type(error).__name__, re.sub(r"\d+", "0", str(error)), *expression)


def _node(traceback: TracebackType) -> ast.AST | None:
    """The smallest expression with the position of an instruction; the statement of its line before Python 3.11."""
    code = traceback.tb_frame.f_code
    tree = _tree(code.co_filename)
    if tree is None:
        return None
    position: tuple[int | None, ...] = (traceback.tb_lineno, None, None, None)
    if hasattr(code, "co_positions"):
        position = next(islice(code.co_positions(), traceback.tb_lasti // 2, None), position)
    line, end, column, last = position
    exact: ast.AST | None = None
    statement: ast.AST | None = None
    # The last expression with exactly this range is the innermost: `a` of `(a)` has it as well.
    for each in ast.walk(tree):
        first = getattr(each, "lineno", None)
        if first is None:
            continue
        node: Any = each
        if (first, node.end_lineno, node.col_offset, node.end_col_offset) == (line, end, column, last):
            exact = node
        if isinstance(node, ast.stmt) and first <= traceback.tb_lineno <= (node.end_lineno or first):
            statement = node
    return exact if exact is not None else statement


@functools.lru_cache(maxsize=64)
def _tree(file: str) -> ast.Module | None:
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return None


def value_of(node: ast.AST, frame: FrameType) -> Any:
    """The value of a name, or of a key or number of one; MISSING for what only a call could tell."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return frame.f_locals.get(name, frame.f_globals.get(name, MISSING))
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            owner = frame.f_locals.get("self")
            return getattr(owner, "__dict__", {}).get(name, MISSING)
        case ast.Attribute(value=ast.Name(id="cls"), attr=name):
            classes: tuple[type[Any], ...] = getattr(frame.f_locals.get("cls"), "__mro__", ())
            return next((vars(each)[name] for each in classes if name in vars(each)), MISSING)
        case ast.Subscript(value=owner, slice=key):
            return _item(value_of(owner, frame), value_of(key, frame))
        case _:
            return MISSING


def _item(owner: Any, key: Any) -> Any:
    # Only what Python itself looks up: the subscript of another class may be code of the script.
    inner = getattr(owner, "data", None) if type(owner).__name__ in ("LazyRow", "LazyBatch") else owner
    if not (is_dictionary(inner) or is_row(inner)) or key is MISSING:
        return MISSING
    try:
        return inner[key]
    except (KeyError, IndexError, TypeError):
        return MISSING


def origins(node: ast.AST, frame: FrameType, depth: int = 0, loops: int = 0) -> Iterator[tuple[ast.AST, int]]:
    """An expression and what its value comes from: assignments, loops, calls. With the number of loops between."""
    yield node, loops
    if depth == DEEPEST:
        return
    for each, through in _sources(node, frame):
        yield from origins(each, frame, depth + 1, loops + through)


def _sources(node: ast.AST, frame: FrameType) -> Iterator[tuple[ast.expr, int]]:
    match node:
        case ast.Name(id=name):
            yield from _assigned(name, frame)
        case ast.Call(func=ast.Attribute(value=owner), args=arguments):
            # `text.strip()`, `json.loads(text)`: what a method is called on, and what a function is given.
            yield from ((each, 0) for each in (owner, *arguments[:2]))
        case ast.Call(args=[first, *_]):
            yield first, 0
        case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element) | ast.SetComp(elt=element):
            yield element, 0
        case ast.Subscript(value=owner) | ast.Starred(value=owner) | ast.Attribute(value=owner):
            yield owner, 0
        case ast.expr():
            yield from ((each, 0) for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr))
        case _:
            pass


def _assigned(name: str, frame: FrameType) -> Iterator[tuple[ast.expr, int]]:
    """What a name was given in the function of a frame: the right side of an assignment, or what a loop goes over."""
    tree = _tree(frame.f_code.co_filename)
    first = frame.f_code.co_firstlineno
    # All that come after the frame's function begins, another function's too: a wrong one leads to no made value.
    for node in ast.walk(tree) if tree is not None else ():
        if getattr(node, "lineno", first) < first and frame.f_code.co_name != "<module>":
            continue
        match node:
            case ast.Assign(targets=[target], value=value) if _names(target, name):
                yield value, 0
            case ast.AnnAssign(target=ast.Name(id=given), value=ast.expr() as value) if given == name:
                yield value, 0
            case ast.For(target=target, iter=value) if _names(target, name):
                yield _looped(value), 1
            case ast.ListComp(generators=loops) | ast.GeneratorExp(generators=loops) | ast.DictComp(generators=loops):
                yield from ((_looped(each.iter), 1) for each in loops if _names(each.target, name))
            case _:
                pass


def refused_by(where: Raised) -> Iterator[ast.expr]:
    """What was tested before an error: by `assert`, or by the innermost `if` with a `raise` in its body."""
    tree, line = _tree(where.frame.f_code.co_filename), where.line
    nodes = [*ast.walk(tree)] if tree is not None else []
    found = list[tuple[int, ast.expr]]()
    for node in nodes:
        match node:
            case ast.Assert(test=test) if node.lineno <= line <= (node.end_lineno or line):
                found.append((node.lineno, test))
            case ast.If(test=test, body=body) if any(
                isinstance(part, ast.Raise) and part.lineno <= line <= (part.end_lineno or line) for part in body
            ):
                found.append((node.lineno, test))
            case _:
                pass
    yield from (test for _, test in sorted(found, key=lambda each: -each[0])[:1])


def _looped(value: ast.expr) -> ast.expr:
    """`rows` of `enumerate(rows)` and `tqdm(rows)`."""
    is_wrapped = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.args
    return value.args[0] if is_wrapped and isinstance(value, ast.Call) else value


def _names(target: ast.expr, name: str) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(target))
