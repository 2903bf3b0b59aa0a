"""Rows that a script repeats by hand: a frame put together with a part of itself, or with itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from lintrain.analysis.built_layers import last_name
from lintrain.source.nodes import unparse, walk

TOGETHER = frozenset({"concat", "concatenate", "vstack", "append", "concatenate_datasets"})
"""Functions that put rows below each other."""

SAME_ROWS = frozenset({"copy", "reset_index", "sample", "to_numpy"})
"""Methods that give rows which are rows of the frame."""


def repeats_by_hand(value: ast.expr, parts: Mapping[str, str]) -> bool:
    """Whether an expression has some rows twice; `parts` names frames by the one of which they have some rows."""
    return any(isinstance(node, ast.Call) and _repeats(node, parts) for node in walk(value))


def part_of(value: ast.expr, parts: Mapping[str, str]) -> str:
    """The name of the frame of which an expression has some rows, chosen by a condition; empty for other code."""
    match value:
        case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in SAME_ROWS:
            return part_of(owner, parts)
        case ast.Subscript(value=ast.Name(id=frame), slice=mask) if _is_condition(mask, frame):
            return parts.get(frame, frame)
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id=frame), attr="loc"), slice=mask):
            first = mask.elts[0] if isinstance(mask, ast.Tuple) and mask.elts else mask
            return parts.get(frame, frame) if _is_condition(first, frame) else ""
        case ast.Call(func=ast.Attribute(value=ast.Name(id=frame), attr="query")):
            return parts.get(frame, frame)
        case ast.Name(id=name):
            return parts.get(name, "")
        case _:
            return ""


def _is_condition(mask: ast.expr, frame: str) -> bool:
    """Whether an index chooses rows by what the frame has in a column: `df["label"] == 1`."""
    is_test = any(isinstance(each, ast.Compare) or _is_isin(each) for each in walk(mask))
    return is_test and any(isinstance(each, ast.Name) and each.id == frame for each in walk(mask))


def _is_isin(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) in {"isin", "eq", "ne"}


def _repeats(call: ast.Call, parts: Mapping[str, str]) -> bool:
    if last_name(call.func) not in TOGETHER or not all(_is_first_axis(each) for each in call.keywords):
        return False
    listed = call.args[0] if call.args else None
    if isinstance(call.func, ast.Attribute) and call.func.attr == "append":
        # Lists have this method as well, and give nothing: only what it gives is looked at.
        whole = call.func.value
        return isinstance(whole, ast.Name) and listed is not None and part_of(listed, parts) == whole.id
    return listed is not None and _has_twice([*_frames_in(listed)], parts)


def _is_first_axis(given: ast.keyword) -> bool:
    is_first = isinstance(given.value, ast.Constant) and given.value.value in (0, "index", "rows")
    return given.arg is not None and (given.arg != "axis" or is_first)


def _frames_in(listed: ast.expr) -> Iterator[ast.expr]:
    """The frames of a list: `[df, few, few]`, `[df] * 3`, `[df] + [few] * 4`."""
    match listed:
        case ast.List(elts=frames) | ast.Tuple(elts=frames):
            yield from frames
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            yield from _frames_in(left)
            yield from _frames_in(right)
        case ast.BinOp(left=ast.List(elts=[frame]), op=ast.Mult(), right=times) if not _is_one(times):
            yield from (frame, frame)
        case _:
            pass


def _is_one(times: ast.expr) -> bool:
    return isinstance(times, ast.Constant) and times.value in (0, 1)


def _has_twice(frames: list[ast.expr], parts: Mapping[str, str]) -> bool:
    """Whether a frame is there twice, or as a whole and as a part."""
    codes = [unparse(each) for each in frames if isinstance(each, ast.Name | ast.Subscript)]
    names = {each.id for each in frames if isinstance(each, ast.Name)}
    return len(set(codes)) < len(codes) or any(part_of(each, parts) in names - {unparse(each)} for each in frames)
