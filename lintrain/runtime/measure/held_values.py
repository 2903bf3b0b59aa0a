"""What the statements around a loop do with its values: which one made a value, which one keeps the graphs of batches
that are over, and how many rounds are planned.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Sequence
from contextlib import suppress
from types import FrameType
from typing import Any

from lintrain.model.location import Location
from lintrain.runtime.child.frames import caller_of, characters, is_users, shown, users_frame
from lintrain.runtime.child.given import nodes_of, value_in
from lintrain.runtime.child.library import attribute, is_mapping, library
from lintrain.runtime.measure.seen import Forward, nodes_below, tensors_in

MOST_FRAMES = 4
MOST_NODES = 64
"""Operations below a value that are searched for the graph of an earlier batch."""
FEW = 3
"""Entries of a container that are looked at: one that collects losses has them from its first entry on."""
BATCH = "lintrain_batch"
"""The key under which autograd keeps the number of a batch with the last operation of its loss."""
COLLECTS = frozenset({"append", "appendleft", "add", "extend", "insert", "put", "update"})


def made_by_statement(value: Any) -> Location | None:
    """The last statement that assigned the name under which the script's function, or a caller of it, has a value."""
    for frame in _users_frames():
        for name, held in list(frame.f_locals.items()):
            if held is value and (statement := _assignment(frame, name)) is not None:
                return _location(frame.f_code.co_filename, statement)
    return None


CUTS = frozenset({"cpu", "data", "detach", "detach_", "item", "numpy", "tolist"})
"""Attributes through which a tensor loses its graph; after `cpu` another of them follows."""
MAKES = frozenset({"array", "asarray", "as_tensor", "FloatTensor", "Tensor", "tensor", "Variable"})


def cut_of(output: Any, *, is_gone: bool = False) -> Location | None:
    """The statement that takes a tensor out of its graph: makes another one with its memory, or copies its numbers.

    With `is_gone` only a tensor without a graph counts.
    """
    memory = output.untyped_storage().data_ptr()
    for frame in _users_frames():
        for name, held in list(frame.f_locals.items()):
            is_tensor = isinstance(held, library("torch").Tensor)
            if not is_tensor or held.untyped_storage().data_ptr() != memory or (is_gone and held.requires_grad):
                continue
            found = _copying(frame, name) if held.requires_grad else _assignment(frame, name)
            if found is not None:
                return _location(frame.f_code.co_filename, found)
    return None


def cut_in(forwards: Sequence[Forward], own: set[int]) -> Location | None:
    """Where the last output of a module with some parameters is taken out of its graph: on its way, or for a call."""
    for number in reversed(range(len(forwards))):
        forward = forwards[number]
        is_own = forward.records and any(id(weight) in own for weight in forward.module.parameters())
        for output in tensors_in(forward.output) if is_own else ():
            location = cut_of(output, is_gone=True) or _cut_for(output, forwards[number + 1 :]) or cut_of(output)
            if output.requires_grad and location is not None:
                return location
    return None


def _cut_for(output: Any, later: Sequence[Forward]) -> Location | None:
    """The last call of a module that reads the numbers of a tensor without its graph."""
    memory = output.untyped_storage().data_ptr()
    for forward in reversed(later):
        for given in tensors_in((forward.args, forward.kwargs)):
            if not given.requires_grad and given.untyped_storage().data_ptr() == memory:
                return forward.location
    return None


def new_leaf_in(loss: Any) -> Location | None:
    """The statement that made a tensor at which the graph of a loss ends, and which is no parameter."""
    for node in nodes_below(loss.grad_fn) or ():
        leaf = attribute(node, "variable", None)
        if leaf is not None and type(leaf).__name__ != "Parameter" and (made := made_by_statement(leaf)) is not None:
            return made
    return None


def cut_inside(loss: Any) -> Location | None:
    """The first statement that takes a tensor out of its graph in the function of the script that returned a loss."""
    for frame in _users_frames():
        for name, held in list(frame.f_locals.items()):
            made = _assignment(frame, name) if held is loss else None
            match made:
                case ast.Assign(value=ast.Call(func=function)):
                    found = value_in(function, frame)
                    return _first_cut(found[0]) if found is not None else None
                case _:
                    pass
    return None


def _first_cut(function: Any) -> Location | None:
    code = attribute(attribute(function, "forward", function), "__code__")
    if code is None or not is_users(code.co_filename):
        return None
    nodes = nodes_of(code.co_filename)
    own = (node for node in nodes if isinstance(node, ast.FunctionDef) and _begins(node) == code.co_firstlineno)
    statements = (node for node in ast.walk(next(own, ast.Module([], []))) if isinstance(node, ast.Assign | ast.Return))
    cutting = [node for node in statements if any(_takes_out(part) for part in ast.walk(node))]
    return _location(code.co_filename, min(cutting, key=lambda node: node.lineno)) if cutting else None


def _takes_out(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr=attr):
            return attr in CUTS
        case ast.Call(func=function, args=[_, *_]):
            return ast.unparse(function).rpartition(".")[2] in MAKES
        case _:
            return False


def _copying(frame: FrameType, name: str) -> ast.stmt | None:
    """The first statement that reads the numbers of a name, or makes a new tensor of it."""
    statements = [node for node in nodes_of(frame.f_code.co_filename) if isinstance(node, ast.Assign | ast.Expr)]
    found = [each for each in statements if any(_cuts(node, name) for node in ast.walk(each))]
    return min(found, key=lambda node: node.lineno, default=None)


def _cuts(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id=owner), attr=attr):
            return owner == name and attr in CUTS
        case ast.Call(func=function, args=[ast.Name(id=given), *_]):
            return given == name and ast.unparse(function).rpartition(".")[2] in MAKES
        case _:
            return False


def kept_in(owner: Any, name: str) -> Location | None:
    """The statement in an object's class that assigns one of its attributes."""
    kind: type[object] = owner.__class__
    path = _file_of(kind)
    nodes = nodes_of(path) if is_users(path) else ()
    classes = (node for node in nodes if isinstance(node, ast.ClassDef))
    for each in (node for node in classes if node.name == kind.__name__):
        for node in ast.walk(each):
            targets = node.targets if isinstance(node, ast.Assign) else [attribute(node, "target", None)]
            is_it = any(isinstance(one, ast.Attribute) and ast.unparse(one) == f"self.{name}" for one in targets)
            if isinstance(node, ast.Assign | ast.AnnAssign) and is_it:
                return _location(path, node)
    return None


def last_return(function: Any) -> Location | None:
    """The last `return` of a function or method of the script."""
    code = attribute(function, "__code__")
    if code is None or not is_users(code.co_filename):
        return None
    nodes = nodes_of(code.co_filename)
    own = (node for node in nodes if isinstance(node, ast.FunctionDef) and _begins(node) == code.co_firstlineno)
    returns = [node for node in ast.walk(next(own, ast.Module([], []))) if isinstance(node, ast.Return)]
    return _location(code.co_filename, max(returns, key=lambda node: node.lineno)) if returns else None


def planned_rounds() -> tuple[int | None, bool]:
    """How often the loops around the present line repeat that over the batches, None if they do not say so; and
    whether the innermost loop may be left before its batches are over.
    """
    rounds, others, is_cut_short = 1, 0, False
    for frame in _users_frames():
        for loop in _loops_around(frame):
            count = _count(loop.iter, frame) if isinstance(loop, ast.For) else None
            rounds, others = (rounds * count, others) if count is not None else (rounds, others + 1)
            if count is None:
                is_cut_short |= any(isinstance(node, ast.Break | ast.Return) for node in ast.walk(loop))
    return (rounds if others <= 1 else None), is_cut_short


def _loops_around(frame: FrameType) -> list[ast.For | ast.While]:
    nodes, code = nodes_of(frame.f_code.co_filename), frame.f_code
    own = (node for node in nodes if isinstance(node, ast.FunctionDef) and _begins(node) == code.co_firstlineno)
    scope = ast.walk(next(own, ast.Module([], []))) if code.co_name != "<module>" else iter(nodes)
    return [node for node in scope if isinstance(node, ast.For | ast.While) and _holds(node, frame.f_lineno)]


def heads_around(frame: FrameType) -> list[str]:
    """The name of the function that a frame runs, and the heads of the loops in it that it is in."""
    loops = _loops_around(frame)
    targets = [ast.unparse(each.target if isinstance(each, ast.For) else each.test) for each in loops]
    return [frame.f_code.co_name, *targets, *(ast.unparse(each.iter) for each in loops if isinstance(each, ast.For))]


def _begins(node: ast.FunctionDef) -> int:
    return min([node.lineno, *(each.lineno for each in node.decorator_list)])


def _count(iterated: ast.expr, frame: FrameType) -> int | None:
    """The length of a `range` of known numbers, in a progress bar or not; None for anything else."""
    match iterated:
        case ast.Call(func=function, args=[first, *rest]):
            name = ast.unparse(function).rpartition(".")[2]
            if name == "range":
                limits = [_number(each, frame) for each in (first, *rest)]
                known = [each for each in limits if each is not None]
                return len(range(*known)) if len(known) == len(limits) <= 2 else None
            if name == "trange":
                return _number(first, frame)
            return _count(first, frame) if name == "tqdm" else None
        case _:
            return None


def _number(node: ast.expr, frame: FrameType) -> int | None:
    match node:
        case ast.Constant(value=int() as number):
            return number
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() as operator, right=right):
            one, other = _number(left, frame), _number(right, frame)
            if one is None or other is None:
                return None
            return {ast.Add: one + other, ast.Sub: one - other, ast.Mult: one * other}[type(operator)]
        case _:
            found = value_in(node, frame)
            is_number = found is not None and isinstance(found[0], int) and not isinstance(found[0], bool)
            return found[0] if found is not None and is_number else None


def mark_graph(loss: Any, batch: int) -> None:
    """Leave the number of a batch in the graph of its loss."""
    with suppress(AttributeError, TypeError):  # an operation of the script's own may have no such dictionary
        loss.grad_fn.metadata[BATCH] = batch


def keeper_of_graphs(before: int) -> Location | None:
    """The statement that adds graphs of batches up to a number to a variable, a container or an attribute."""
    for frame in _users_frames():
        path = frame.f_code.co_filename
        for name, value in list(frame.f_locals.items()):
            if _has_graph(value, before):
                found, file = _growing(path, name, frame.f_lineno), path
            else:
                found, file = _growing_attribute(name, value, before, path)
            if found is not None:
                return _location(file, found)
    return None


def _users_frames() -> Iterator[FrameType]:
    frame, count = users_frame(), 0
    while frame is not None and count < MOST_FRAMES:
        if is_users(frame.f_code.co_filename):
            count += 1
            yield frame
        frame = caller_of(frame)


def _assignment(frame: FrameType, name: str) -> ast.stmt | None:
    every = [node for node in nodes_of(frame.f_code.co_filename) if _assigns(node, name)]
    above = [node for node in every if isinstance(node, ast.stmt) and node.lineno <= frame.f_lineno]
    return max(above, key=lambda node: node.lineno, default=None)


def _assigns(node: ast.AST, name: str) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [attribute(node, "target", None)]
    return isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and any(
        isinstance(part, ast.Name) and part.id == name and isinstance(part.ctx, ast.Store)  # not `loss.grad = …`
        for each in targets
        if each
        for part in ast.walk(each)
    )


def _has_graph(value: Any, before: int) -> bool:
    """Whether a tensor, or one of the first of a container, depends on the loss of a batch up to a number."""
    parts = list(value.values())[:FEW] if is_mapping(value) else value
    tensors: list[Any] = list(parts)[:FEW] if type(parts).__name__ in ("list", "tuple", "deque") else [parts]
    return any(_depends(each, before) for each in tensors if isinstance(each, library("torch").Tensor))


def _depends(tensor: Any, before: int) -> bool:
    waiting, seen = [tensor.grad_fn], 0
    while waiting and seen < MOST_NODES:
        node = waiting.pop(0)
        if node is None:
            continue
        seen += 1
        if attribute(node, "metadata", {}).get(BATCH, before + 1) <= before:
            return True
        waiting += [below for below, _ in node.next_functions]
    return False


def _growing(path: str, name: str, line: int) -> ast.stmt | None:
    """The statement that adds to a name, rather one in a loop around the line than another."""
    nodes = nodes_of(path)
    found = [node for node in nodes if isinstance(node, ast.stmt) and _adds(node, name)]
    around = [node for node in nodes if isinstance(node, ast.For | ast.While) and _holds(node, line)]
    inside = [node for node in found if any(_holds(loop, node.lineno) for loop in around)]
    return next(iter(inside or found), None)


def _holds(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _adds(node: ast.stmt, name: str) -> bool:
    match node:
        case ast.AugAssign(target=target):
            return ast.unparse(target).partition("[")[0] == name
        case ast.Assign(targets=[ast.Subscript(value=owner)]):
            return ast.unparse(owner) == name
        case ast.Assign(targets=[target], value=value):
            return ast.unparse(target) == name and any(ast.unparse(part) == name for part in ast.walk(value))
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr=attr))):
            return attr in COLLECTS and ast.unparse(owner).partition("[")[0] == name
        case _:
            return False


def _dictionary(owner: Any) -> dict[Any, Any]:
    found: dict[Any, Any] = attribute(owner, "__dict__", {})
    return found


def _growing_attribute(name: str, owner: Any, before: int, path: str) -> tuple[ast.stmt | None, str]:
    """The statement that adds to an attribute of an object that a frame holds, in its class or beside the frame."""
    own: dict[Any, Any] = {} if inspect.ismodule(owner) else _dictionary(owner)
    for entry, value in list(own.items()):
        if isinstance(entry, str) and _has_graph(value, before):
            file = _file_of(owner.__class__)
            if is_users(file) and (found := _growing(file, f"self.{entry}", 0)) is not None:
                return found, file
            return _growing(path, f"{name}.{entry}", 0), path
    return None, path


def _file_of(kind: type) -> str:
    """The file of a class, as its methods name it; that of the script is no module with a file."""
    codes = (attribute(method, "__code__", None) for method in vars(kind).values())
    return next((code.co_filename for code in codes if code is not None), "<none>")


def _location(path: str, node: ast.stmt) -> Location:
    first, last = node.lineno, node.end_lineno or node.lineno
    column, end = characters(path, first, node.col_offset), characters(path, last, node.end_col_offset or 0)
    return Location(shown(path), first, column, last, end)
