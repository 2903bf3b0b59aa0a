"""Rows and labels that no longer belong together: one of the two is shuffled, and both train a network.

    np.random.shuffle(labels)
    model.fit(inputs, labels)

Where both are shuffled, their order may be the same, so nothing is said.

A generator of Keras shuffles the files of a directory, while its `classes` stay in the order of the files.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from lintrain.analysis.built_layers import last_name
from lintrain.analysis.split_names import SPLITS, split_of
from lintrain.analysis.training_loops import words_of
from lintrain.model.location import Location
from lintrain.source.by_name import calls_of
from lintrain.source.nodes import statements, unparse
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
    for body, given in _scopes(source):
        yield from _parted_in(source, body, given)


def _scopes(source: Source) -> Iterator[tuple[list[ast.stmt], list[ast.Assign]]]:
    """The body of the file and of each function, with its parameters as names that it is given."""
    yield source.tree.body, []
    for function in source.nodes_of(ast.FunctionDef):
        names = [each.arg for each in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
        given = [ast.Assign([ast.Name(name)], ast.Name(name), lineno=function.lineno) for name in names]
        yield function.body, given


def _parted_in(source: Source, body: list[ast.stmt], given: list[ast.Assign]) -> Iterator[Parted]:
    shuffled = {name: (moment, block) for name, moment, block in _shuffled(body)}
    nodes = [each for each in statements(body) if isinstance(each, ast.Assign)] if shuffled else []
    bound = [*given, *(each for node in nodes for each in _singly(node))]
    for call in source.nodes_of(ast.Call) if shuffled else ():
        if last_name(call.func) not in TRAINS or len(call.args) < 2:
            continue
        pair = [each.id for each in call.args[:2] if isinstance(each, ast.Name)]
        if len(pair) != 2 or pair[0] == pair[1]:
            continue
        for name, other in (pair, pair[::-1]):
            moment, block = shuffled.get(name, (None, ()))
            is_single = moment is not None and other not in shuffled and moment.lineno < call.lineno
            if moment is None or not is_single or MEANT.search(f"{name} {other}"):
                continue
            is_trained = any(each.lineno <= call.lineno <= (each.end_lineno or 0) for each in block)
            if is_trained and _keeps_order(bound, name, moment, call) and _is_older(bound, name, other, moment):
                yield Parted(source.location(moment), name, other, source.location(call))


def _singly(node: ast.Assign) -> Iterator[ast.Assign]:
    """An assignment, or each of the names that it gives parts of a value to."""
    match node:
        case ast.Assign(targets=[ast.Name()]):
            yield node
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if len(names) == len(values):
            for name, value in zip(names, values, strict=True):
                yield from _singly(ast.copy_location(ast.Assign([name], value), node))
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=value):
            for name in names:
                yield from _singly(ast.copy_location(ast.Assign([name], value), node))
        case _:
            pass


def _shuffled(body: Sequence[ast.stmt]) -> Iterator[tuple[str, ast.stmt, Sequence[ast.stmt]]]:
    """The names that a statement of a block puts into a random order, with its block; not those inside functions."""
    for node in body:
        match node:
            case ast.Expr(value=ast.Call(func=func, args=[ast.Name(id=name)])) if unparse(func) in SHUFFLES:
                yield name, node, body
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=func, args=[ast.Name(id=same)])) if (
                name == same and unparse(func) in PERMUTES
            ):
                yield name, node, body
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                pass
            case _:
                for block in (getattr(node, field, ()) for field in ("body", "orelse", "finalbody")):
                    yield from _shuffled(block)


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


def _is_older(bound: list[ast.Assign], name: str, other: str, moment: ast.stmt) -> bool:
    """Whether the other list was there before the shuffle, is no part of what is shuffled, and only converted later."""
    values = [node for node in bound if unparse(node.targets[0]) == other]
    if any(unparse(node.value).startswith((f"{name}[", f"{name}.")) for node in values):
        return False  # a view of an array is shuffled with it
    after = [node for node in values if node.lineno > moment.lineno]
    is_old = any(node.lineno < moment.lineno for node in values)
    return is_old and all(_converts(node.value, other) for node in after)


@dataclass(frozen=True, slots=True)
class Mixed:
    """The labels of one split that are read with the inputs of another: where, both names, and the right labels."""

    location: Location
    inputs: str
    labels: str
    right: str


def mixed_splits(source: Source) -> Iterator[Mixed]:
    """The pairs of inputs and labels whose names are of different splits: `fit(x_train, y_test)`.

    Only where the labels of the inputs' own split have their name in the file: else the names follow no scheme.
    """
    for call in calls_of(source, PAIRS | {"from_tensor_slices"}) if source.contains(r"(?i)train") else ():
        for inputs, labels in _pairs_of(call):
            one, other = unparse(inputs), unparse(labels)
            right = _labels_of(one, other) if one != other else ""
            if right and source.contains(rf"\b{re.escape(right)}\b"):
                yield Mixed(source.location(labels), one, other, right)


def _pairs_of(call: ast.Call) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The inputs and labels that a call reads as pairs."""
    name, named = last_name(call.func), {each.arg: each.value for each in call.keywords}
    given = [*call.args[:2], *(named[key] for key in ("x", "X", "y") if key in named)]
    if name in PAIRS and len(given) == 2 and not isinstance(given[0], ast.Starred):
        yield given[0], given[1]
    elif name == "from_tensor_slices" and len(call.args) == 1:
        given = [call.args[0]]
    for part in (*given[:1], named.get("validation_data")) if name in PAIRS | {"from_tensor_slices"} else ():
        match part:
            case ast.Tuple(elts=[inputs, labels, *_]):
                yield inputs, labels
            case _:
                pass


PAIRS = TRAINS | {"evaluate", "score", "partial_fit", "train_on_batch", "flow"}
"""Functions whose first two arguments are inputs and their labels, row by row."""
INPUTS = frozenset(
    {"x", "input", "inputs", "image", "images", "img", "imgs", "feature", "features", "data", "sequences"}
)
LABELS = frozenset({"y", "label", "labels", "target", "targets", "class", "classes"})


def _labels_of(inputs: str, labels: str) -> str:
    """The name of the labels that the names of inputs and of labels of another split lead to; empty if none does."""
    split, other = split_of(inputs), split_of(labels)
    if split is None or other is None or split == other:
        return ""
    is_pair = words_of(inputs) & INPUTS and words_of(labels) & LABELS and not words_of(inputs) & LABELS
    words = [word for word in re.findall(r"[A-Za-z]+", inputs) if SPLITS.get(word.lower()) == split]
    written = [word for word in re.findall(r"[A-Za-z]+", labels) if SPLITS.get(word.lower()) == other]
    if not is_pair or len(words) != 1 or len(written) != 1:
        return ""
    return labels.replace(written[0], words[0])
