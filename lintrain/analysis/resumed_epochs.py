"""Where a run that is resumed begins: with the epoch after the one that was saved, or once more with that one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

TRAINS = lazy_pattern(r"(?i)train|fit|learn|run_epoch|one_epoch|(?:^|_)step$")
"""Names of functions that train for an epoch."""

SAVED = lazy_pattern(r"(?i)state|ckpt|check|save|dict")
"""Names of what is saved."""

BARS = frozenset({"tqdm", "trange", "track"})


@dataclass(frozen=True, slots=True)
class RepeatedEpoch:
    """The first epoch of a resumed run that was finished: where it is read, its code, and where it was saved."""

    location: Location
    start: str
    read: str
    saved: Location


def repeated_epochs(source: Source) -> Iterator[RepeatedEpoch]:
    """The loops over epochs that begin with the number of the epoch after which the checkpoint was saved."""
    for loop in source.nodes_of(ast.For):
        start = _start_of(loop)
        if start is None or not isinstance(loop.target, ast.Name):
            continue
        read = _read_from(source, start)
        key = _key_of(read) if read is not None else ""
        saved = _saved_after(source, loop, key) if key else None
        if read is not None and saved is not None:
            yield RepeatedEpoch(source.location(read), unparse(start), unparse(read), source.location(saved))


def _start_of(loop: ast.For) -> ast.expr | None:
    """What a loop over a range begins with, if it is a name or an attribute."""
    over = loop.iter
    if isinstance(over, ast.Call) and last_name(over.func) in BARS and over.args:
        over = over.args[0] if isinstance(over.args[0], ast.Call) else over
    match over:
        case ast.Call(func=func, args=[ast.Name() | ast.Attribute() as start, end]):
            # `range(start, start + epochs)` counts its own epochs, and `start` only numbers them.
            is_range = last_name(func) in {"range", "trange"}
            return start if is_range and unparse(start) not in map(unparse, walk(end)) else None
        case _:
            return None


def _read_from(source: Source, start: ast.expr) -> ast.expr | None:
    """The entry of a checkpoint that a name gets, if it otherwise gets numbers and options, and nothing is added."""
    code = unparse(start)
    if any(unparse(each.target) == code for each in source.nodes_of(ast.AugAssign)):
        return None
    read: list[ast.expr] = []
    for node in source.nodes_of(ast.Assign, ast.AnnAssign):
        for target, value in _pairs(node):
            if unparse(target) != code:
                continue
            if _key_of(value):
                read.append(value)
            elif not isinstance(value, ast.Constant | ast.Attribute):
                return None
    return read[0] if len(read) == 1 else None


def _pairs(node: ast.Assign | ast.AnnAssign) -> Iterator[tuple[ast.expr, ast.expr]]:
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            yield from zip(target.elts, node.value.elts, strict=False)
        elif isinstance(target, ast.Tuple) and node.value is not None:
            yield from ((each, node.value) for each in target.elts)
        elif node.value is not None:
            yield target, node.value


def _key_of(value: ast.expr) -> str:
    """The key of `checkpoint["epoch"]` and `checkpoint.get("epoch", 0)`; empty for other code."""
    match value:
        case ast.Call(func=ast.Name(id="int"), args=[inner]):
            return _key_of(inner)
        case ast.Subscript(slice=ast.Constant(value=str(key))):
            return key
        case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=str(key)), *_]):
            return key
        case _:
            return ""


def _saved_after(source: Source, loop: ast.For, key: str) -> ast.expr | None:
    """The number of the epoch in the checkpoint, if each one certainly is that of the epoch that was just finished."""
    saved = [(holder, value) for holder, value in _entries(source, key)]
    if not saved or not all(_is_finished(source, loop, holder, value) for holder, value in saved):
        return None
    return saved[0][1]


def _entries(source: Source, key: str) -> Iterator[tuple[ast.AST, ast.expr]]:
    """What the checkpoints of a file hold under a key, with the statement or dictionary that puts it there."""
    for node in source.nodes_of(ast.Dict):
        pairs = [
            (one, value) for one, value in zip(node.keys, node.values, strict=True) if isinstance(one, ast.Constant)
        ]
        if len(pairs) > 1 and "state" in unparse(node):
            yield from ((node, value) for one, value in pairs if one.value == key)
    for call in source.nodes_of(ast.Call):
        if isinstance(call.func, ast.Name) and call.func.id == "dict" and "state_dict" in unparse(call):
            yield from ((call, each.value) for each in call.keywords if each.arg == key)
    for statement in source.nodes_of(ast.Assign):
        match statement:
            case ast.Assign(targets=[ast.Subscript(value=owner, slice=ast.Constant(value=str(name)))]) if name == key:
                if SAVED.search(unparse(owner)):
                    yield statement, statement.value
            case _:
                pass


def _is_finished(source: Source, loop: ast.For, holder: ast.AST, value: ast.expr) -> bool:
    """Whether a value is the number of the epoch, in code of the loop that runs when its training is over."""
    if not isinstance(value, ast.Name):
        return False
    if isinstance(loop.target, ast.Name) and value.id == loop.target.id and _ends_epoch(loop, holder):
        return True
    function = next((each for each in source.nodes_of(ast.FunctionDef) if _holds(each, holder)), None)
    if function is None or any(
        isinstance(each, ast.For | ast.While) and _holds(each, holder) for each in walk(function)
    ):
        return False
    calls = [each for each in source.nodes_of(ast.Call) if _is_call_of(function, each)]
    given = [_given(function, call, value.id) for call in calls]
    return bool(calls) and all(
        isinstance(each, ast.Name) and unparse(each) == unparse(loop.target) and _ends_epoch(loop, call)
        for call, each in zip(calls, given, strict=True)
    )


def _is_call_of(function: ast.FunctionDef, call: ast.Call) -> bool:
    """Whether a call is one of a function of the file, or of a method on an object of the script."""
    is_method = bool(function.args.args) and function.args.args[0].arg == "self"
    is_library = isinstance(call.func, ast.Attribute) and unparse(call.func.value) in {"torch", "accelerator"}
    return (
        last_name(call.func) == function.name and isinstance(call.func, ast.Attribute) is is_method and not is_library
    )


def _given(function: ast.FunctionDef, call: ast.Call, name: str) -> ast.expr | None:
    """What a call gives to a parameter."""
    named = next((each.value for each in call.keywords if each.arg == name), None)
    names = [each.arg for each in function.args.args if each.arg != "self"]
    if named is not None or name not in names or any(isinstance(each, ast.Starred) for each in call.args):
        return named
    index = names.index(name)
    return call.args[index] if index < len(call.args) else None


def _ends_epoch(loop: ast.For, inner: ast.AST) -> bool:
    """Whether code runs once in each round of a loop, after what trains in it."""
    own = own_nodes(loop)
    if not any(each is inner for each in own):
        return False
    inside = [each for each in own if isinstance(each, ast.For | ast.While | ast.ExceptHandler) and each is not loop]
    if any(_holds(each, inner) for each in inside):
        return False
    line = getattr(inner, "lineno", 0)
    before = [each for each in own if isinstance(each, ast.For | ast.While | ast.Call) and each is not loop]
    return any(_trains(each) for each in before if (getattr(each, "end_lineno", 0) or 0) < line)


def _trains(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        is_mode = last_name(node.func) == "train" and not node.args and not node.keywords
        return TRAINS.search(last_name(node.func)) is not None and not is_mode
    return any(isinstance(each, ast.Attribute) and each.attr in {"backward", "step"} for each in walk(node))


def _holds(outer: ast.AST, inner: ast.AST) -> bool:
    return any(each is inner for each in walk(outer))
