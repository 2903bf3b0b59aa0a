"""Datasets that the script will evaluate or predict on after training: read from its text, looked up, nothing run."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any, cast

from lintrain.model.location import Location
from lintrain.runtime.child.frames import caller_of, characters, is_users, shown, spot
from lintrain.runtime.child.library import attribute
from lintrain.runtime.child.surroundings import is_in_loop

ARGUMENTS = {"predict": "test_dataset", "evaluate": "eval_dataset"}
NOTHING = object()


def later_datasets(trainer: Any) -> Iterator[tuple[str, Any, Location]]:
    """Argument, dataset and place of `trainer.predict(…)` and `trainer.evaluate(…)` below the running lines."""
    frame = inspect.currentframe()
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            yield from _of_frame(frame, trainer)
        frame = caller_of(frame)


def calls_later(owner: Any, method: str) -> Location | None:
    """Where the lines below the running ones call a method of an object, or None."""
    frame = inspect.currentframe()
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            names = {**frame.f_globals, **frame.f_locals}
            for node in ast.walk(_tree(frame)):
                match node:
                    case ast.Call(func=ast.Attribute(value=value, attr=attribute)) if attribute == method:
                        if node.lineno > frame.f_lineno and look_up(value, names) is owner:
                            return _location(node, frame)
                    case _:
                        pass
        frame = caller_of(frame)
    return None


def evaluates_itself() -> Location | None:
    """Where the files of the running lines call `evaluate` or `predict` of anything, or None if they do not."""
    frame = inspect.currentframe()
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            for node in ast.walk(_tree(frame)):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ARGUMENTS:
                    return _location(node, frame)
        frame = caller_of(frame)
    return None


def later_trainings() -> Iterator[str]:
    """Places of `….train()` on trainers that the script makes only below the running lines."""
    frame = inspect.currentframe()
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            path = frame.f_code.co_filename
            yield from (spot(path, line) for line in _trainings(_tree(frame), frame.f_lineno))
        frame = caller_of(frame)


def trains_again(method: str, kind: type) -> bool:
    """Whether the script may train once more: in a loop around the running lines, or below them.

    Below: `method` of an object of this kind, a trainer that is made there, or the backward pass of a loop.
    """
    if is_in_loop():
        return True
    frame = inspect.currentframe()
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            tree, names = _tree(frame), {**frame.f_globals, **frame.f_locals}
            if next(_trainings(tree, frame.f_lineno), None) is not None:
                return True
            if any(_trains(node, names, method, kind) for node in ast.walk(tree) if _is_below(node, frame)):
                return True
        frame = caller_of(frame)
    return False


def _is_below(node: ast.AST, frame: FrameType) -> bool:
    return bool(attribute(node, "lineno", 0) > frame.f_lineno)


def _trains(node: ast.AST, names: Mapping[str, Any], method: str, kind: type) -> bool:
    """Whether a node trains: a method of an object that exists, or the backward pass of a loop."""
    match node:
        case ast.Call(func=ast.Attribute(attr="backward")):
            return True
        case ast.Call(func=ast.Attribute(value=value, attr=attribute)) if attribute == method:
            return isinstance(look_up(value, names), kind)
        case _:
            return False


def _trainings(tree: ast.Module, after: int) -> Iterator[int]:
    below = [node for node in ast.walk(tree) if attribute(node, "lineno", 0) > after]
    made = {
        name for node in below if isinstance(node, ast.Assign) and _makes_trainer(node.value) for name in _names(node)
    }
    # Only trainers that are made below count: one that exists by now is the trainer whose call is being measured, and
    # `model.train()` sets a mode.
    for node in below:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="train")) if name in made:
                yield node.lineno
            case _:
                pass


def _makes_trainer(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func).endswith("Trainer")


def _names(assignment: ast.Assign) -> list[str]:
    return [target.id for target in assignment.targets if isinstance(target, ast.Name)]


def _tree(frame: FrameType) -> ast.Module:
    """The text of a frame's file, of a notebook that of its cells; nothing of a file that cannot be read as Python."""
    # Not `inspect.getsource`: the cells of a notebook are in `linecache` alone, as no file holds them.
    try:
        return ast.parse("".join(linecache.getlines(frame.f_code.co_filename)))
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def _of_frame(frame: FrameType, trainer: Any) -> Iterator[tuple[str, Any, Location]]:
    tree = _tree(frame)
    names = {**frame.f_globals, **frame.f_locals}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.lineno > frame.f_lineno:
            argument = ARGUMENTS.get(node.func.attr)
            if argument and look_up(node.func.value, names) is trainer:
                given = look_up(_first(node, argument), names)
                if given is not NOTHING and given is not None:
                    yield argument, given, _location(node, frame)


def _location(node: ast.Call, frame: FrameType) -> Location:
    path, end_line = frame.f_code.co_filename, node.end_lineno or node.lineno
    start = characters(path, node.lineno, node.col_offset)
    return Location(shown(path), node.lineno, start, end_line, characters(path, end_line, node.end_col_offset or 0))


def _first(call: ast.Call, argument: str) -> ast.expr | None:
    named = next((keyword.value for keyword in call.keywords if keyword.arg == argument), None)
    return call.args[0] if call.args else named


def look_up(node: ast.expr | None, names: Mapping[str, Any]) -> Any:
    """The value that an expression of names, constant keys and plain attributes has now; NOTHING for any other."""
    match node:
        case ast.Name(id=name):
            return names.get(name, NOTHING)
        case ast.Subscript(value=inner, slice=ast.Constant(value=key)):
            return _entry(look_up(inner, names), key)
        case ast.Attribute(value=inner, attr=name):
            return _entry(attribute(look_up(inner, names), "__dict__", None), name)
        case _:
            return NOTHING


def _entry(owner: Any, key: object) -> Any:
    if not isinstance(owner, Mapping):
        return NOTHING
    entries = cast("Mapping[object, Any]", owner)
    return entries.get(key, NOTHING)
