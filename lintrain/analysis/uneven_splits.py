"""Parts of one split of which only one is scaled or made one-hot: `x_train /= 255`, and `x_test` as it was loaded.

Both parts are bound by one statement, so they have the same kind of numbers until one of them is changed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence

from lintrain.analysis.built_layers import last_name
from lintrain.analysis.split_names import SPLITS, split_of
from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

KEEPS = frozenset({"array", "asarray", "astype", "expand_dims", "float", "float32", "from_numpy", "reshape", "tensor"})
"""Functions that give the same numbers in another form."""

FEEDS = frozenset({"evaluate", "fit", "predict", "score"})
"""Methods by which a network gets rows."""

SCALES = lazy_pattern(r"255|rescale|Rescaling|Scaler|ToTensor|normali[sz]e")
ENCODES = lazy_pattern(r"to_categorical|get_dummies|one_hot|OneHot|Binarizer|np_utils")
"""Code that scales pixels, or makes class numbers one-hot rows."""


@dataclass(frozen=True, slots=True)
class Uneven:
    """A part that was left as it is: where a network gets it, its name, that of the changed part, and the change."""

    location: Location
    name: str
    other: str
    changed: Location

    @property
    def is_training(self) -> bool:
        """Whether the part that was left as it is has the training rows."""
        return split_of(self.name) == "train"


def unscaled_parts(source: Source) -> Iterator[Uneven]:
    """The images of one part of a split that are not divided by 255, where those of the other are."""
    if "255" in source.text and not source.contains(r"rescale|Rescaling"):
        yield from _uneven(source, _scaled, SCALES.search, FEEDS)


def unencoded_parts(source: Source) -> Iterator[Uneven]:
    """The labels of one part of a split that are not made one-hot, where those of the other are."""
    if "to_categorical" in source.text:
        yield from _uneven(source, _encoded, ENCODES.search, frozenset({"evaluate", "fit"}))


def _uneven(
    source: Source, change: Callable[[ast.AST], str], is_change: Callable[[str], object], feeds: frozenset[str]
) -> Iterator[Uneven]:
    for scope in (source.tree, *source.nodes_of(ast.FunctionDef)):
        nodes = own_nodes(scope)
        changed = {name: node for node in nodes if (name := change(node)) and isinstance(node, ast.stmt)}
        assigned = [node for node in nodes if isinstance(node, ast.Assign)] if changed else []
        for name, node in changed.items():
            # What is bound after the change may be a part of the changed rows.
            groups = [_names_bound(each) for each in assigned if each.lineno < node.lineno]
            for other in {each for group in groups if name in group for each in group if _are_parts(name, each)}:
                if other not in changed and _is_as_loaded(nodes, other, is_change):
                    fed = _first_use(nodes, other, feeds) if _first_use(nodes, name, FEEDS | {"flow"}) else None
                    if fed is not None and fed.lineno > node.lineno:
                        yield Uneven(source.location(fed), other, name, source.location(node))


def _scaled(node: ast.AST) -> str:
    """The name of what a statement divides by 255, else nothing."""
    match node:
        case ast.AugAssign(target=ast.Name(id=name), op=ast.Div(), value=ast.Constant(value=255)):
            return name
        case ast.Assign(
            targets=[ast.Name(id=name)], value=ast.BinOp(op=ast.Div(), right=ast.Constant(value=255)) as value
        ):
            return name if name in {each.id for each in walk(value) if isinstance(each, ast.Name)} else ""
        case _:
            return ""


def _encoded(node: ast.AST) -> str:
    """The name of the labels that a statement makes one-hot, else nothing."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=func, args=[ast.Name(id=same), *_])):
            return name if name == same and last_name(func) == "to_categorical" else ""
        case _:
            return ""


def _names_bound(node: ast.Assign) -> frozenset[str]:
    """The names that one statement binds together."""
    target = node.targets[0]
    names = (each.id for each in walk(target) if isinstance(each, ast.Name))
    return frozenset(names) if isinstance(target, ast.Tuple) else frozenset()


def _are_parts(one: str, other: str) -> bool:
    """Whether two names differ in the split only: `x_train` and `x_test`."""
    splits = {split_of(one), split_of(other)}
    return len(splits) == 2 and None not in splits and _without_split(one) == _without_split(other)


def _without_split(name: str) -> str:
    return re.sub("|".join(sorted(SPLITS, key=len, reverse=True)), "*", name.lower())


def _is_as_loaded(nodes: Sequence[ast.AST], name: str, is_change: Callable[[str], object]) -> bool:
    """Whether no statement of a scope changes the numbers of a part, under its name or another one."""
    for node in nodes:
        if not isinstance(node, ast.Assign | ast.AugAssign):
            continue
        code, targets = unparse(node.value), node.targets if isinstance(node, ast.Assign) else [node.target]
        reads = any(isinstance(each, ast.Name) and each.id == name for each in walk(node.value))
        if reads and is_change(code):
            return False
        is_bound = any(isinstance(each, ast.Name) and each.id == name for each in targets)
        calls = {last_name(each.func) for each in walk(node.value) if isinstance(each, ast.Call)}
        if is_bound and (isinstance(node, ast.AugAssign) or not reads or not calls <= KEEPS or _computes(node.value)):
            return False
    return True


def _computes(node: ast.expr) -> bool:
    return any(isinstance(each, ast.BinOp | ast.UnaryOp) and not _is_axis(each) for each in walk(node))


def _is_axis(node: ast.expr) -> bool:
    """Whether code is a number such as -1."""
    return isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant)


def _first_use(nodes: Sequence[ast.AST], name: str, feeds: frozenset[str]) -> ast.Name | None:
    """Where a network gets a part as it is: as an argument, or in a pair of rows and labels."""
    for node in nodes:
        if isinstance(node, ast.Call) and last_name(node.func) in feeds:
            given = [*node.args, *(each.value for each in node.keywords)]
            parts = [
                part for each in given for part in (each.elts if isinstance(each, ast.Tuple | ast.List) else [each])
            ]
            found = next((each for each in parts if isinstance(each, ast.Name) and each.id == name), None)
            if found is not None:
                return found
    return None
