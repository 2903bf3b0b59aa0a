"""Rows and labels that no longer belong together: one of the two is shuffled, and both train a network.

    np.random.shuffle(labels)
    model.fit(inputs, labels)

Where both are shuffled, their order may be the same, so nothing is said.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

SHUFFLES = frozenset({"random.shuffle", "np.random.shuffle", "numpy.random.shuffle", "shuffle", "rng.shuffle"})
PERMUTES = frozenset({"np.random.permutation", "numpy.random.permutation", "rng.permutation"})
CONVERTS = frozenset({"array", "asarray", "list", "tensor", "from_numpy", "to_categorical", "float", "long", "astype"})
"""Functions that keep the order of what they get."""

TRAINS = frozenset({"fit", "TensorDataset"})
MEANT = lazy_pattern(r"perm|null|random|chance|baseline|shuf")
"""Names of code that takes the labels apart on purpose."""


@dataclass(frozen=True, slots=True)
class Parted:
    """A list that is shuffled without the other: where, its name, the other, and where both train."""

    location: Location
    name: str
    other: str
    trained: Location


def parted(source: Source) -> Iterator[Parted]:
    """The shuffles of one of two lists that a network is trained on in their order."""
    if "shuffle(" not in source.text and "permutation(" not in source.text:
        return
    shuffled = dict(_shuffled(source))
    bound = [each for node in source.nodes_of(ast.Assign) for each in _singly(node)]
    for call in source.nodes_of(ast.Call):
        if last_name(call.func) not in TRAINS or len(call.args) < 2:
            continue
        pair = [each.id for each in call.args[:2] if isinstance(each, ast.Name)]
        if len(pair) != 2 or pair[0] == pair[1]:
            continue
        for name, other in (pair, pair[::-1]):
            moment = shuffled.get(name)
            is_single = moment is not None and other not in shuffled and moment.lineno < call.lineno
            if moment is None or not is_single or MEANT.search(f"{name} {other}"):
                continue
            if _keeps_order(bound, name, moment, call) and _is_older(bound, other, moment):
                yield Parted(source.location(moment), name, other, source.location(call))


def _singly(node: ast.Assign) -> Iterator[ast.Assign]:
    """An assignment, or each of the pairs that it makes."""
    match node:
        case ast.Assign(targets=[ast.Name()]):
            yield node
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if len(names) == len(values):
            for name, value in zip(names, values, strict=True):
                yield ast.copy_location(ast.Assign([name], value), node)
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=value):
            for name in names:
                yield ast.copy_location(ast.Assign([name], value), node)
        case _:
            pass


def _shuffled(source: Source) -> Iterator[tuple[str, ast.stmt]]:
    """The names that a statement outside of any function puts into a random order."""
    for node in source.tree.body:
        match node:
            case ast.Expr(value=ast.Call(func=func, args=[ast.Name(id=name)])) if unparse(func) in SHUFFLES:
                yield name, node
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=func, args=[ast.Name(id=same)])) if (
                name == same and unparse(func) in PERMUTES
            ):
                yield name, node
            case _:
                pass


def _keeps_order(bound: list[ast.Assign], name: str, moment: ast.stmt, call: ast.Call) -> bool:
    """Whether a name holds the same rows from its shuffle to the training."""
    later = [node for node in bound if moment.lineno < node.lineno < call.lineno and unparse(node.targets[0]) == name]
    return all(_converts(node.value, name) for node in later)


def _converts(value: ast.expr, name: str) -> bool:
    match value:
        case ast.Call(func=func, args=[ast.Name(id=same), *_]):
            return same == name and last_name(func) in CONVERTS
        case ast.Call(func=ast.Attribute(value=ast.Name(id=same))):
            return same == name and last_name(value.func) in CONVERTS
        case _:
            return False


def _is_older(bound: list[ast.Assign], other: str, moment: ast.stmt) -> bool:
    """Whether the other list was there before the shuffle, and is only converted after it."""
    values = [node for node in bound if unparse(node.targets[0]) == other]
    after = [node for node in values if node.lineno > moment.lineno]
    is_old = any(node.lineno < moment.lineno for node in values)
    return is_old and all(_converts(node.value, other) for node in after)
