"""Windows of a text that a script cuts as inputs and as targets, both from the same position."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import pairwise

from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

INPUTS = lazy_pattern(r"^(?:x|X|xb|xs|inputs?|input_ids|context|src)(?:_?batch)?$")
TARGETS = lazy_pattern(r"^(?:y|Y|yb|ys|targets?|labels?|tgt)(?:_?batch)?$")

SHIFTS = lazy_pattern(r"[:.], *:-1\]|[:.], *:-1,|[:.], *1:|\.roll\(|\bshift\w* *[(=]|transformers")
"""Code that moves tokens by one later, or libraries whose models do."""

SCORES = lazy_pattern(r"cross_entropy\(|CrossEntropyLoss\(")


@dataclass(frozen=True, slots=True)
class Unshifted:
    """Targets that are cut like the inputs: where, their name, and where the inputs are."""

    location: Location
    name: str
    inputs: Location


def unshifted_windows(source: Source) -> Iterator[Unshifted]:
    """The targets of a function or a loop that are the very window of the inputs, in a file that shifts nothing."""
    if not source.contains(SCORES) or source.contains(SHIFTS):
        return
    for scope in (source.tree, *source.nodes_of(ast.FunctionDef)):
        nodes = own_nodes(scope)
        cuts = [each for each in nodes if isinstance(each, ast.Assign) and _is_cut(each)]
        for one, other in pairwise(cuts):
            names = unparse(one.targets[0]), unparse(other.targets[0])
            is_pair = INPUTS.search(names[0]) is not None and TARGETS.search(names[1]) is not None
            if is_pair and unparse(one.value) == unparse(other.value) and not _is_changed(nodes, names, (one, other)):
                yield Unshifted(source.location(other), names[1], source.location(one))


def _is_cut(statement: ast.Assign) -> bool:
    """Whether a name gets windows from a position on: `data[i : i + size]`, or a stack of them."""
    if not isinstance(statement.targets[0], ast.Name):
        return False
    slices = (each for each in walk(statement.value) if isinstance(each, ast.Slice))
    return any(_is_window(each) for each in slices)


def _is_window(cut: ast.Slice) -> bool:
    if cut.lower is None or not isinstance(cut.upper, ast.BinOp) or not isinstance(cut.upper.op, ast.Add):
        return False
    return unparse(cut.lower) in {unparse(cut.upper.left), unparse(cut.upper.right)}


def _is_changed(nodes: Sequence[ast.AST], names: tuple[str, str], made: tuple[ast.Assign, ast.Assign]) -> bool:
    """Whether other statements write into one of the two, as those that hide words do."""
    for node in nodes:
        if isinstance(node, ast.Assign | ast.AugAssign) and node not in made:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            written = {each.id for target in targets for each in walk(target) if isinstance(each, ast.Name)}
            if not written.isdisjoint(names) and not _only_moves(node):
                return True
        if isinstance(node, ast.Attribute) and node.attr.endswith("_") and unparse(node.value) in names:
            return True
    return False


def _only_moves(node: ast.Assign | ast.AugAssign) -> bool:
    """Whether a statement only puts tensors on a device: `x, y = x.to(device), y.to(device)`."""
    values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
    return isinstance(node, ast.Assign) and all(
        isinstance(each, ast.Call)
        and isinstance(each.func, ast.Attribute)
        and each.func.attr in {"to", "cuda", "pin_memory", "long"}
        for each in values
    )
