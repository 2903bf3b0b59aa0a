"""Tensors whose first axis is no batch, and outputs of a network that are made flat wherever they are used."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.source.nodes import own_nodes, unparse, walk

KEEP_ROWS = frozenset(
    {"relu", "leaky_relu", "elu", "gelu", "silu", "tanh", "sigmoid", "dropout", "softmax", "normalize"}
)
"""Functions of `torch` and `torch.nn.functional` that leave the axes of a tensor as they are."""


def names_with_one_row(nodes: Sequence[ast.AST], line: int) -> set[str]:
    """The names that were last given a tensor whose first axis was just added, or what a layer makes of one."""
    found: set[str] = set()
    before = [each for each in nodes if isinstance(each, ast.Assign) and each.lineno < line]
    for each in sorted(before, key=lambda node: node.lineno):
        names = {part.id for target in each.targets for part in walk(target) if isinstance(part, ast.Name)}
        found = found | names if is_one_row(each.value, found) else found - names
    return found


def is_one_row(node: ast.expr, single: set[str]) -> bool:
    """Whether the first axis of a tensor was added by `unsqueeze(0)`, `[None]` or `view(1, -1)`: it is no batch."""
    match node:
        case ast.Name(id=name):
            return name in single
        case ast.Call(func=ast.Attribute(attr="unsqueeze"), args=[*_, ast.Constant(value=0)]):
            return True
        case ast.Call(func=ast.Attribute(attr="view" | "reshape"), args=[ast.Constant(value=1), _, *_]):
            return True
        case ast.Call(func=ast.Attribute(value=owner, attr="view" | "reshape"), args=[first, _, *_]):
            is_kept = unparse(first) in {f"{unparse(owner)}.size(0)", f"{unparse(owner)}.shape[0]"}
            return is_kept and is_one_row(owner, single)
        case ast.Subscript(slice=ast.Constant(value=None) | ast.Tuple(elts=[ast.Constant(value=None), *_])):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self")), args=[first, *_]):
            return is_one_row(first, single)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="F" | "torch"), attr=name), args=[first, *_]):
            return name in KEEP_ROWS and is_one_row(first, single)
        case _:
            return False


def flat_results(owner: ast.ClassDef, method: ast.FunctionDef) -> set[int]:
    """The expressions that `forward` returns, if each call of the network in its own class makes them flat at once.

    `p = self(x)` and then `p = torch.masked_select(p, mask)`: that gives the same numbers whatever axes `p` has.
    """
    others = [each for each in owner.body if isinstance(each, ast.FunctionDef) and each is not method]
    uses = [is_flat for each in others if method.name == "forward" for is_flat in _uses_of_output(each)]
    if not uses or not all(uses):
        return set()
    nodes = list(own_nodes(method))
    returned = {id(part) for each in nodes if isinstance(each, ast.Return) and each.value for part in walk(each.value)}
    names = {each.id for each in nodes if isinstance(each, ast.Name) and id(each) in returned}
    assigned = (each for each in nodes if isinstance(each, ast.Assign) and unparse(each.targets[0]) in names)
    return returned | {id(each.value) for each in assigned}


def _uses_of_output(method: ast.FunctionDef) -> Iterator[bool]:
    """Of each call of the network in a method of its own, whether its output is only used flat."""
    nodes = list(own_nodes(method))
    for node in nodes:
        match node:
            case ast.Assign(targets=[target], value=ast.Call(func=func)) if unparse(func) in {"self", "self.forward"}:
                first = target.elts[0] if isinstance(target, ast.Tuple) and target.elts else target
                yield isinstance(first, ast.Name) and _is_only_flat(nodes, first.id, node.lineno)
            case ast.Call(func=func) if unparse(func) in {"self", "self.forward"}:
                yield any(isinstance(each, ast.Assign) and each.value is node for each in nodes)
            case _:
                pass


def _is_only_flat(nodes: Sequence[ast.AST], name: str, line: int) -> bool:
    """Whether all reads of a name between a line and its next assignment make the tensor flat."""
    stores = [each.lineno for each in nodes if isinstance(each, ast.Assign) and unparse(each.targets[0]) == name]
    end = min((each for each in stores if each > line), default=1 << 30)
    flat = {id(given) for each in nodes if (given := _made_flat(each)) is not None}
    named = [each for each in nodes if isinstance(each, ast.Name) and each.id == name]
    reads = [each for each in named if isinstance(each.ctx, ast.Load) and line < each.lineno <= end]
    return bool(reads) and all(id(each) in flat for each in reads)


def _made_flat(node: ast.AST) -> ast.expr | None:
    """The tensor that a call makes flat: `torch.masked_select(p, mask)`, `p.view(-1)`, `p.flatten()`."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="masked_select"), args=[given, _]):
            return given
        case ast.Call(func=ast.Attribute(value=given, attr="masked_select")):
            return given
        case ast.Call(func=ast.Attribute(value=given, attr="view" | "reshape"), args=[only]) if unparse(only) == "-1":
            return given
        case ast.Call(func=ast.Attribute(value=given, attr="flatten" | "ravel"), args=[], keywords=[]):
            return given
        case _:
            return None
