"""Tensors of a batch whose axes of size 1 are all squeezed, and that code then goes through row by row."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from lintrain.model.location import Location
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_pattern import lazy_pattern

MODEL = lazy_pattern(r"(^|\.|_)(model|net|network|classifier|regressor|discriminator|critic|scorer)\w*$", re.IGNORECASE)
"""Code of a network that is called."""

LOADS = lazy_pattern(r"load|batch|_dl\b|\bdl\b|data", flags=0)
"""Code that a loop over batches iterates over."""

KEEP_AXES = frozenset(
    {"cpu", "detach", "numpy", "tolist", "float", "double", "int", "long", "half", "to", "cuda", "data"}
)
"""Methods and attributes that leave the axes of a tensor as they are."""

WITHOUT_LAST_BATCH = r"\bdrop_last\s*=\s*True|\bbatch_size\s*=\s*1\b"
RESTORES = r"\.(?:dim|ndim|ndimension|shape|size|unsqueeze|reshape|view|flatten|ravel)\b|atleast_1d|\[None"


def restored_later(nodes: Sequence[ast.AST]) -> set[int]:
    """The nodes that compute what later code gives the batch axis again, whatever was squeezed in it.

    A view with sizes of other tensors does, and `unsqueeze(0)`, which asks for the number of axes before.
    """
    lines: dict[str, int] = {}
    for node in nodes:
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=name), attr="view" | "reshape"), args=sizes, lineno=line
            ) if sizes and not any(name in _names(each) for each in sizes):
                lines[name] = max(line, lines.get(name, line))
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=name), attr="unsqueeze" | "unsqueeze_"),
                args=[ast.Constant(value=0)],
                lineno=line,
            ):
                lines[name] = max(line, lines.get(name, line))
            case _:
                pass
    computed = (each for each in nodes if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name))
    return {
        id(part)
        for each in computed
        if each.lineno < lines.get(unparse(each.targets[0]), 0)
        for part in walk(each.value)
    }


def are_for_one_row(nodes: Sequence[ast.AST]) -> bool:
    """Whether a method plays in an environment, one row at a time, or adds the batch axis to a row that has none."""
    return any(_plays(node) or _adds_batch_axis(node) or _starts_with_one_row(node) for node in nodes)


def _starts_with_one_row(node: ast.AST) -> bool:
    """`if state is None: state = self.start.unsqueeze(0)`: the state of a single row."""
    match node:
        case ast.If(
            test=ast.Compare(left=ast.Name(id=name), ops=[ast.Is()], comparators=[ast.Constant(value=None)]),
            body=[ast.Assign(targets=[ast.Name(id=given)], value=value)],
        ) if name == given:
            return "unsqueeze(0)" in unparse(value)
        case _:
            return False


def _plays(node: ast.AST) -> bool:
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=given)], value=ast.Call(func=ast.Attribute(attr="step"))):
            return len(given) in ANSWERS
        case _:
            return False


ANSWERS = (4, 5)
"""How many things the step of an environment gives: the next state, the reward, whether it is over, and more."""


def _adds_batch_axis(node: ast.AST) -> bool:
    """`if x.ndim == 1: x = x.view(-1, size)`, or any other number of axes with a first axis of one entry."""
    match node:
        case ast.If(test=ast.Compare(ops=[ast.Eq()], comparators=[ast.Constant(value=axes)]) as test, body=body):
            calls = [each for part in body for each in walk(part) if isinstance(each, ast.Call)]
            return AXES.search(unparse(test)) is not None and any(_is_axis_added(each, axes) for each in calls)
        case _:
            return False


def _is_axis_added(call: ast.Call, axes: object) -> bool:
    match call:
        case ast.Call(func=ast.Attribute(attr="unsqueeze"), args=[*_, ast.Constant(value=0)]):
            return True
        case ast.Call(func=ast.Attribute(attr="view" | "reshape"), args=[first, *_]):
            return unparse(first) == "1" or (unparse(first) == "-1" and axes == 1)
        case _:
            return False


def regained(nodes: Sequence[ast.AST]) -> set[int]:
    """The nodes of what gets its batch axis back, or has no use for one."""
    restored = restored_later(nodes) | restored_around(nodes) | reduced(nodes) | given_to_processors(nodes)
    return restored | asked_after(nodes) | evened(nodes)


def asked_after(nodes: Sequence[ast.AST]) -> set[int]:
    """The squeezes whose number of axes the next code asks for, and those whose result is discarded.

    Also those whose result fills the rows of another tensor, over which a single row is broadcast: `outputs[:, i] = …`.
    """
    tests = [node for node in nodes if isinstance(node, ast.If) and AXES.search(unparse(node.test))]
    asked = {name: test.lineno for test in reversed(tests) for name in _names(test.test)}
    return {
        id(node.value)
        for node in nodes
        if isinstance(node, ast.Expr)
        or (isinstance(node, ast.Assign) and node.lineno < asked.get(unparse(node.targets[0]), 0))
        or (isinstance(node, ast.Assign) and _fills_rows(node.targets[0]))
    }


def _fills_rows(target: ast.expr) -> bool:
    """Whether a target is all rows of a tensor, or some of them."""
    return isinstance(target, ast.Subscript) and any(isinstance(each, ast.Slice) for each in walk(target.slice))


def evened(nodes: Sequence[ast.AST]) -> set[int]:
    """The squeezes of a call whose arguments lose the same axes: `loss(logits.squeeze().float(), y.squeeze())`."""
    calls = [[_without_moves(each) for each in node.args] for node in nodes if isinstance(node, ast.Call)]
    even = [each for each in calls if len(each) > 1 and all(squeezed_in(arg) is not None for arg in each)]
    return {id(arg) for each in even for arg in each}


def given_to_processors(nodes: Sequence[ast.AST]) -> set[int]:
    """The squeezes whose result goes to a processor of transformers, which adds the batch axis to a single row."""
    calls = [each for each in nodes if isinstance(each, ast.Call)]
    asking = [call for call in calls if any(each.arg == "return_tensors" for each in call.keywords)]
    given = {unparse(call.args[0]): call.lineno for call in asking if call.args}
    return {
        id(node.value)
        for node in nodes
        if isinstance(node, ast.Assign) and node.lineno < given.get(unparse(node.targets[0]), 0)
    }


def nodes_of_graphs(nodes: Sequence[ast.AST]) -> set[str]:
    """The names of tensors that a layer gets together with edges, `conv(x, data.edge_index)`: a row for each node."""
    calls = (each for each in nodes if isinstance(each, ast.Call) and len(each.args) > 1)
    given = (each.args for each in calls if EDGES.search(unparse(each.args[1])))
    return {first.id for first, *_ in given if isinstance(first, ast.Name)}


EDGES = lazy_pattern(r"(^|\.)(edge_index(_dict)?|adj_t)$")
"""How the edges of a graph are called in PyTorch Geometric."""


def squeezed_in(node: ast.AST) -> ast.expr | None:
    """What a call squeezes all axes of: `x.squeeze()`, `torch.squeeze(x)`."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="squeeze"), args=[inner], keywords=[]):
            return inner
        case ast.Call(func=ast.Attribute(value=inner, attr="squeeze"), args=[], keywords=[]):
            return inner
        case _:
            return None


AXES = lazy_pattern(r"\.ndim\b|\.dim\(\)|\.ndimension\(|len\([\w.]+\.(?:shape|size\(\))\)")
"""Code that counts the axes of a tensor."""


def restored_around(nodes: Sequence[ast.AST]) -> set[int]:
    """The nodes of what gets its axes back in the same expression: `layer(x.squeeze()).unsqueeze(0)`, or by a view.

    Also the nodes of code that asks for the number of axes before: `if x.ndim > 1: x = x.squeeze()`.
    """
    asking = [node for node in nodes if isinstance(node, ast.If) and AXES.search(unparse(node.test))]
    return (
        {id(part) for node in asking for each in node.body for part in walk(each)}
        | {
            id(part)
            for node in nodes
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "unsqueeze"
            if node.args and unparse(node.args[0]) == "0"
            for part in walk(node.func.value)
        }
        | {id(part) for node in nodes if (sized := _sized(node)) is not None for part in walk(sized)}
    )


def _sized(node: ast.AST) -> ast.expr | None:
    """What gets all its axes from the sizes of a call, `repeat(rows, 1, 1)` or `view(rows, steps)`."""
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr="view" | "reshape" | "repeat" | "expand"), args=[_, _, *_]):
            return inner
        case _:
            return None


REDUCES = frozenset({"amax", "amin", "argmax", "argmin", "max", "mean", "median", "min", "norm", "prod", "std", "sum"})
"""Functions that, without an axis, make one number of a tensor whatever axes it has."""


def reduced(nodes: Sequence[ast.AST]) -> set[int]:
    """The nodes of what becomes one number: `torch.argmax(scores.squeeze())`, `scores.squeeze().max()`."""
    found = set[int]()
    for node in nodes:
        match node:
            case (
                ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=name), args=[inner], keywords=[])
                | ast.Call(func=ast.Attribute(value=inner, attr=name), args=[], keywords=[])
            ) if name in REDUCES:
                found.add(id(inner))
            case _:
                pass
    return found


def iterated_squeezes(source: Source) -> list[tuple[Location, str]]:
    """The squeezes of a batch whose result is iterated in the same loop, with what is squeezed."""
    if not source.contains(r"squeeze\(\)") or source.contains(WITHOUT_LAST_BATCH):
        return []
    return source.cached(_iterated_squeezes)


def _iterated_squeezes(source: Source) -> list[tuple[Location, str]]:
    found: dict[Location, str] = {}
    for loop in source.nodes_of(ast.For):
        if LOADS.search(unparse(loop.iter)):
            for node in _iterated_in(loop):
                found.setdefault(source.location(node), unparse(node.func.value))  # type: ignore[attr-defined]
    return list(found.items())


def _iterated_in(loop: ast.For) -> Iterator[ast.Call]:
    """The squeezes in a loop over batches whose rows the same iteration goes through."""
    rows = {each.id for each in walk(loop.target) if isinstance(each, ast.Name)}
    squeezed: dict[str, ast.Call] = {}
    for node in walk(loop):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                inner = _squeeze_in(value)
                if inner is not None and _names(inner) & rows:
                    squeezed[name] = inner
                elif name in squeezed:
                    del squeezed[name]
                if _names(value) & rows:
                    rows.add(name)
            case _:
                pass
    text = unparse(loop)
    for group in _iterated(loop):
        given = [(each, _given_squeeze(each, squeezed, rows)) for each in group]
        is_beside_rows = any(inner is None and _names(each) & rows for each, inner in given)
        for each, inner in given:
            if inner is None or _is_restored(each, text):
                continue
            if is_beside_rows or _is_prediction(inner, rows):
                yield inner


def _iterated(loop: ast.For) -> Iterator[list[ast.expr]]:
    """What code goes through: each group of expressions is read row by row together."""
    for node in walk(loop):
        match node:
            case ast.For(iter=over) | ast.comprehension(iter=over) if node is not loop:
                yield _read_together(over)
            case ast.Call(func=ast.Attribute(attr="extend"), args=[only]):
                yield _read_together(only)
            case _:
                pass


def _read_together(node: ast.expr) -> list[ast.expr]:
    match node:
        case ast.Call(func=ast.Name(id="zip"), args=given):
            return given
        case ast.Call(func=ast.Name(id="enumerate" | "list" | "tqdm"), args=[first, *_]):
            return _read_together(first)
        case _:
            return [node]


def _given_squeeze(node: ast.expr, squeezed: dict[str, ast.Call], rows: set[str]) -> ast.Call | None:
    """The squeeze that an expression is the result of, in itself or by its name."""
    plain = _without_moves(node)
    if isinstance(plain, ast.Name):
        return squeezed.get(plain.id)
    inner = _squeeze_in(node)
    return inner if inner is not None and _names(inner) & rows else None


def _squeeze_in(node: ast.expr) -> ast.Call | None:
    """The call of `squeeze()` that a chain of methods which keep the axes ends with: `x.squeeze().tolist()`."""
    match _without_moves(node):
        case ast.Call(func=ast.Attribute(attr="squeeze"), args=[], keywords=[]) as call:
            return call
        case _:
            return None


def _without_moves(node: ast.expr) -> ast.expr:
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr=name)) | ast.Attribute(value=owner, attr=name):
            return _without_moves(owner) if name in KEEP_AXES else node
        case _:
            return node


def _is_prediction(inner: ast.Call, rows: set[str]) -> bool:
    """Whether what is squeezed is what a model gives for the batch itself: `model(x).squeeze()`."""
    match _without_moves(inner.func.value) if isinstance(inner.func, ast.Attribute) else inner:
        case ast.Call(func=func, args=given):
            return MODEL.search(unparse(func)) is not None and any(_names(each) & rows for each in given)
        case _:
            return False


def _is_restored(node: ast.expr, text: str) -> bool:
    """Whether the loop asks a squeezed tensor for its axes, or gives it one again."""
    plain = _without_moves(node)
    name = plain.id if isinstance(plain, ast.Name) else None
    return name is not None and re.search(rf"\b{name}(?:{RESTORES})|atleast_1d\({name}\b", text) is not None


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in walk(node) if isinstance(each, ast.Name)}


def flat_names(node: ast.Assign) -> list[str]:
    """The names that are given something that was squeezed."""
    is_flat = any(squeezed_in(each) is not None for each in walk(node.value))
    return [unparse(each) for each in node.targets] if is_flat else []


def spread_over_rows(node: ast.BinOp, whole: set[str]) -> Iterator[ast.expr]:
    """The sides of an operation whose other side has rows of its own: the result has the axes of that one."""
    for side, other in (node.left, node.right), (node.right, node.left):
        if isinstance(other, ast.Name) and other.id in whole:
            yield side


def compares(owner: ast.ClassDef) -> bool:
    """Whether a module is a loss or a score: by its name, or because it gets predictions and targets."""
    forward = next((each for each in owner.body if isinstance(each, ast.FunctionDef) and each.name == "forward"), None)
    given = [each.arg.lower() for each in forward.args.args[1:3]] if forward is not None else []
    is_given_both = len(given) == 2 and bool(PREDICTED.search(given[0]) and AIMED_AT.search(given[1]))
    return "loss" in owner.name.lower() or is_given_both


PREDICTED = lazy_pattern(r"pred|output|logit|score|y_hat|estimat")
AIMED_AT = lazy_pattern(r"target|label|true|truth|^y$|gt")
