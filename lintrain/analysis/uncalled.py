"""Methods named without their brackets: statements that do nothing, chains that fail, numbers that are none."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.analysis.built_layers import last_name
from lintrain.analysis.script_text import imported_names
from lintrain.knowledge.trainers import TORCH_OPTIMIZERS
from lintrain.model.location import Location
from lintrain.source.by_name import calls_of
from lintrain.source.nodes import unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

ALWAYS_CALLED = frozenset({"backward", "step", "zero_grad"})
"""Methods that no statement names in order to show them, not even the last one of a cell."""

OF_NETWORKS = frozenset({"cuda", "eval", "train"})
OF_TRAINERS = frozenset({"evaluate", "fit", "train"})

MOVES = frozenset({"cpu", "cuda", "detach", "item", "numpy"})
"""Methods of tensors that are called one after the other: `x.detach().cpu().numpy()`."""

ENDS = MOVES | {"clone", "float", "long", "tolist"}

WEIGHTS = frozenset({"named_parameters", "parameters"})

NETWORK = lazy_pattern(
    r"(?:^|_)(?:model|net|network|encoder|decoder|generator|discriminator|critic|actor|backbone|classifier)\d*$",
    re.IGNORECASE,
)
TRAINER = lazy_pattern(r"trainer$", re.IGNORECASE)
NUMBER = lazy_pattern(r"(?:^|_)(?:loss|acc|accuracy|score|correct)(?:$|_|\d)", re.IGNORECASE)
"""Names of tensors of one number, whose `item` is meant."""


@dataclass(frozen=True, slots=True)
class Uncalled:
    """A method without its brackets: where, its code, and whether that is a statement, which does nothing."""

    location: Location
    code: str
    does_nothing: bool


def uncalled(source: Source) -> Iterator[Uncalled]:
    """The methods of tensors, networks, optimizers and trainers that a file names where a call was meant."""
    for node in _idle(source):
        yield Uncalled(source.location(node), unparse(node), does_nothing=True)
    for node in _failing(source):
        yield Uncalled(source.location(node), unparse(node), does_nothing=False)


def idle_methods(source: Source) -> frozenset[str]:
    """The names of the methods in statements that were meant as calls: `zero_grad` of `optimizer.zero_grad`."""
    return frozenset(node.attr for node in _idle(source))


def _idle(source: Source) -> Iterator[ast.Attribute]:
    values = (statement.value for statement in source.nodes_of(ast.Expr))
    return (value for value in values if isinstance(value, ast.Attribute) and _is_meant(value))


def _is_meant(node: ast.Attribute) -> bool:
    """Whether a statement of this attribute was meant as a call."""
    owner = last_name(node.value)
    return (
        node.attr in ALWAYS_CALLED
        or (node.attr in OF_NETWORKS and NETWORK.search(owner) is not None)
        or (node.attr in OF_TRAINERS and TRAINER.search(owner) is not None)
    )


def _failing(source: Source) -> Iterator[ast.Attribute]:
    imported = imported_names(source)
    for node in source.nodes_of(ast.Attribute):
        inner = node.value
        if node.attr in ENDS and isinstance(inner, ast.Attribute) and inner.attr in MOVES:
            first = _first_name(inner)
            if first not in imported and last_name(inner.value) not in {"self", "args", "opt", "config"}:
                yield inner
    given = [each for call in calls_of(source, READS) for each in _given(call)]
    # An attribute or property of the script's own classes may have the name: a list of weights.
    own = _own_attributes(source) if given else set[str]()
    yield from (each for each in given if each.attr not in own)
    for added in source.nodes_of(ast.AugAssign):
        if isinstance(added.value, ast.Attribute) and _is_number(added.value):
            yield added.value


def _own_attributes(source: Source) -> set[str]:
    stored = {node.attr for node in source.nodes_of(ast.Attribute) if isinstance(node.ctx, ast.Store)}
    return stored | {node.name for node in source.nodes_of(ast.FunctionDef) if node.decorator_list}


def _given(call: ast.Call) -> Iterator[ast.Attribute]:
    """The arguments of a call that are methods: the weights of an optimizer, and numbers that are kept or printed."""
    called = last_name(call.func)
    of_name = [each.value for each in call.keywords if each.arg in {"params", "parameters"}]
    first = next(iter([*call.args[:1], *of_name]), None) if called in READ_WEIGHTS else None
    if isinstance(first, ast.Attribute) and first.attr in WEIGHTS:
        yield first
    for each in call.args if called in {"append", "print"} else ():
        parts = each.values if isinstance(each, ast.JoinedStr) else [each]
        for part in parts:
            shown = part.value if isinstance(part, ast.FormattedValue) else part
            if isinstance(shown, ast.Attribute) and _is_number(shown):
                yield shown


READ_WEIGHTS = TORCH_OPTIMIZERS | {"clip_grad_norm_", "clip_grad_value_"}
"""What reads weights from its first argument."""

READS = READ_WEIGHTS | {"append", "print"}


def _is_number(node: ast.Attribute) -> bool:
    return node.attr == "item" and NUMBER.search(last_name(node.value)) is not None


def _first_name(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""
