"""Parts of a batch that stay on the CPU, though the inputs of the same batch are moved to a device."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

from lintrain.analysis.built_layers import last_name
from lintrain.analysis.device_moves import MOVED, MOVES, MOVES_BATCHES, SHAPES, goes_to_device
from lintrain.analysis.loader_loops import loops_over_loaders
from lintrain.model.location import Location
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """A part of a batch that stays on the CPU and meets outputs on the GPU: where, and where the others move."""

    location: Location
    name: str
    moved: Location


BRINGS_BACK = frozenset({"cpu", "numpy", "item", "tolist"})
LOSS = lazy_pattern(r"(?:^|[._])(?:loss\w*|crit\w*|cross_entropy|nll|bce|mse)$|Loss\(.*\)$", re.IGNORECASE)
MOVED_AT_ONCE = r"DeviceDataLoader|to_device|[Pp]refetcher|prefetch_(?:loader|to)|TensorDataset\([^\n]*\.(?:to|cuda)\("
"""Code after which the batches of a loader are on the GPU already."""


def left_behind(source: Source) -> Iterator[LeftBehind]:
    """Targets of a batch whose inputs are moved to the GPU, where they meet what the network gives for them."""
    loops = source.cached(loops_over_loaders) if source.contains(MOVED) else []
    if not loops or source.contains(MOVES_BATCHES) or source.contains(MOVED_AT_ONCE):
        return
    for loop, _ in loops:
        names = source.once(_parts_of_batch, loop)
        if not names:
            continue
        nodes = [node for statement in loop.body for node in walk(statement)]
        lost = {node.value for node in nodes if isinstance(node, ast.Expr)}  # a move that nothing takes moves nothing
        calls = [node for node in nodes if isinstance(node, ast.Call) and node not in lost]
        # What is made from a part of the batch and then moved brings the outputs to the GPU, too.
        moves: dict[str, ast.AST] = {name: call for call in calls if (name := _moved_part(source, call))}
        moves |= {name: node for name, node in _moved_items(source, nodes) if name in names}
        if not moves:
            continue
        kept = _kept_where_they_are(nodes)
        stored = Counter(_name_bound(node) for node in (*walk(loop.target), *nodes) if id(node) not in kept)
        left = {name for name in names - moves.keys() if stored[name] == 1}
        if not left:
            continue
        first = min((node for node in moves.values() if isinstance(node, ast.Call)), key=lambda call: call.lineno)
        for node, name in _meetings(source, nodes, _on_gpu(nodes, {*moves}), left):
            if node.lineno >= first.lineno:
                yield LeftBehind(source.location(node), name, source.location(first))
                break


def _parts_of_batch(loop: ast.For) -> set[str]:
    """The names of the parts of a batch: `x` and `y` of `for i, (x, y) in …`, or of `x, y = batch`."""
    target = loop.target
    while isinstance(target, ast.Tuple) and any(isinstance(each, ast.Tuple) for each in target.elts):
        target = next(each for each in target.elts if isinstance(each, ast.Tuple))
    if isinstance(target, ast.Tuple) and not _is_counted(loop):
        return {each.id for each in target.elts if isinstance(each, ast.Name)}
    whole = {each.id for each in walk(target) if isinstance(each, ast.Name)}
    parts = set[str]()
    for node in (node for statement in loop.body for node in walk(statement)):
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=elts)], value=ast.Name(id=name)) if name in whole:
                parts |= {each.id for each in elts if isinstance(each, ast.Name)}
            case ast.Assign(targets=[ast.Name(id=part)], value=value) if _item_of(value) in whole:
                parts.add(part)
            case _:
                pass
    return parts


def _item_of(value: ast.expr) -> str:
    """The name that an item is read of, moved or not: `batch` of `batch[0].to(device)`; empty for other code."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in MOVES | SHAPES:
        value = value.func.value
    is_item = isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant)
    return value.value.id if is_item and isinstance(value, ast.Subscript) and isinstance(value.value, ast.Name) else ""


def _is_counted(loop: ast.For) -> bool:
    """Whether the second name of `for i, batch in enumerate(loader)` is the whole batch."""
    is_flat = isinstance(loop.target, ast.Tuple) and all(isinstance(each, ast.Name) for each in loop.target.elts)
    return is_flat and "enumerate(" in unparse(loop.iter)


def _moved_part(source: Source, node: ast.Call) -> str:
    """The name that a move to a GPU is called on; empty for other calls."""
    if not isinstance(node.func, ast.Attribute) or node.func.attr not in MOVES:
        return ""
    owner = node.func.value
    while isinstance(owner, ast.Call) and isinstance(owner.func, ast.Attribute) and owner.func.attr in SHAPES:
        owner = owner.func.value
    return owner.id if isinstance(owner, ast.Name) and goes_to_device(source, node) else ""


def _moved_items(source: Source, nodes: list[ast.AST]) -> Iterator[tuple[str, ast.AST]]:
    """The names that get an item of a batch on its way to a GPU: `inputs = batch[0].to(device)`."""
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as value) if _item_of(value):
                calls = [each for each in walk(value) if isinstance(each, ast.Call)]
                if any(last_name(call.func) in MOVES and goes_to_device(source, call) for call in calls):
                    yield name, value
            case _:
                pass


def _kept_where_they_are(nodes: list[ast.AST]) -> set[int]:
    """The targets of assignments that leave a tensor on its device: `y = y.float()`, `x = Variable(x)`."""
    found = set[int]()
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                pairs = list(zip(targets, values, strict=False))
            case ast.Assign(targets=[target], value=value):
                pairs = [(target, value)]
            case _:
                continue
        found |= {id(target) for target, value in pairs if isinstance(target, ast.Name) and _is_of(value, target.id)}
    return found


def _is_of(value: ast.expr, name: str) -> bool:
    """Whether an expression is a tensor of this name in another shape or type, or wrapped as a `Variable`."""
    match value:
        case ast.Name(id=found):
            return found == name
        case ast.Call(func=ast.Attribute(value=owner, attr=method)):
            return method in SHAPES and _is_of(owner, name)
        case ast.Call(func=ast.Name(id="Variable"), args=[inner], keywords=[]):
            return _is_of(inner, name)
        case ast.BinOp(left=left, right=right):
            plain = (ast.Constant, ast.Attribute)  # smoothed labels: `(1 - options.share) * y + options.share / 2`
            sides = [each for each in (left, right) if not isinstance(each, plain) and not _is_number(each)]
            return bool(sides) and all(_is_of(each, name) for each in sides)
        case _:
            return False


def _is_number(value: ast.expr) -> bool:
    """Whether an expression is computed from constants and attributes alone."""
    plain = (ast.Constant, ast.Attribute)
    return isinstance(value, ast.BinOp) and all(
        isinstance(each, plain) or _is_number(each) for each in (value.left, value.right)
    )


def _name_bound(node: ast.AST) -> str:
    """The name that a node is, if it binds one; empty for others."""
    return node.id if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else ""


def _on_gpu(nodes: list[ast.AST], moved: set[str]) -> set[str]:
    """The names that the loop gives moved inputs, or what a call makes of them and nothing brings back."""
    found = set(moved)
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_on_gpu(value, found):
                found.add(name)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if _is_on_gpu(value, found):
                found.add(name)
            case ast.Assign(targets=[ast.Tuple(elts=parts)], value=ast.Tuple(elts=values)):
                pairs = zip(parts, values, strict=False)
                found |= {each.id for each, value in pairs if isinstance(each, ast.Name) and _is_on_gpu(value, found)}
            case ast.Assign(targets=[ast.Tuple(elts=parts)], value=ast.Call() as value) if _is_on_gpu(value, found):
                found |= {each.id for each in parts if isinstance(each, ast.Name)}
            case _:
                pass
    return found


def _is_on_gpu(node: ast.expr, known: set[str]) -> bool:
    """Whether an expression is a known name, or is computed from one by calls that leave it where it is."""
    match node:
        case ast.Name(id=name):
            return name in known
        case ast.Attribute(value=owner, attr="data" | "logits"):
            return _is_on_gpu(owner, known)
        case ast.Subscript(value=owner, slice=ast.Constant(value=str())):
            return _is_on_gpu(owner, known)
        case ast.Call(func=ast.Name(id="cast"), args=[_, inner]):
            return _is_on_gpu(inner, known)
        case ast.Call(func=ast.Attribute(attr=name)) if name in BRINGS_BACK:
            return False
        case ast.Call(func=called, args=args):
            given = [*([called.value] if isinstance(called, ast.Attribute) else []), *args[:1]]
            return any(_is_on_gpu(each, known) for each in given)
        case _:
            return False


def _meetings(source: Source, nodes: list[ast.AST], on_gpu: set[str], left: set[str]) -> Iterator[tuple[ast.expr, str]]:
    """The losses and comparisons that get both an output on the GPU and a part that stays on the CPU."""
    for node in nodes:
        match node:
            case ast.Call(func=called, args=[one, other, *_]) if is_loss(source, called):
                sides = one, other
            case ast.Compare(left=one, ops=[ast.Eq()], comparators=[other]):
                sides = one, other
            case _:
                continue
        for output, target in (sides, sides[::-1]):
            if isinstance(target, ast.Name) and target.id in left and _is_on_gpu(output, on_gpu):
                yield node, target.id


def is_loss(source: Source, called: ast.expr) -> bool:
    """Whether what is called is a loss, by its name or as one of torch, and no function here that moves tensors."""
    code = unparse(called)
    if code in source.cached(_losses_that_move):
        return False
    return LOSS.search(code) is not None or code in source.cached(_losses_made)


def _losses_made(source: Source) -> frozenset[str]:
    """The names that are given a loss of torch: `error = nn.CrossEntropyLoss()`."""
    made = (node for node in source.nodes_of(ast.Assign) if isinstance(node.value, ast.Call))
    losses = (node for node in made if unparse(node.value.func).startswith(("nn.", "torch.nn.")))  # type: ignore[attr-defined]
    return frozenset(unparse(target) for node in losses if LOSS.search(unparse(node.value)) for target in node.targets)


def _losses_that_move(source: Source) -> frozenset[str]:
    """The functions of a file, and names of objects of its classes, that move tensors themselves."""
    moving = {node.name for node in source.nodes_of(ast.FunctionDef, ast.ClassDef) if MOVED.search(unparse(node))}
    made = {
        unparse(target)
        for node in source.nodes_of(ast.Assign)
        if isinstance(node.value, ast.Call) and last_name(node.value.func) in moving
        for target in node.targets
    }
    return frozenset(moving | made)
