"""An edit as the change of one node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

import libcst as cst

from lintrain.fix.tree import Span
from lintrain.model.fixes import Edit
from lintrain.startup.lazy_dataclass import dataclass

Change = Callable[[cst.CSTNode], Sequence[cst.CSTNode]]
"""From a node to the nodes in its stead; none where it goes."""


@dataclass(frozen=True, slots=True)
class Step:
    """One change of one node.

    `order` ranks the steps of a node; `span` is the code that no other step may touch; two steps with a key in common
    exclude each other.
    """

    edit: Edit
    node: cst.CSTNode
    change: Change = field(compare=False)
    order: int
    span: Span
    keys: frozenset[tuple[cst.CSTNode, str]] = frozenset()


def clash(one: Step, other: Step) -> bool:
    """Whether two steps cannot both be taken; the same edit twice is one edit."""
    return one.edit != other.edit and (bool(one.keys & other.keys) or _overlap(one.span, other.span))


def _overlap(one: Span, other: Span) -> bool:
    """Whether two stretches share code; an empty one is a point, which only the inside of another touches."""
    return one[0] < other[1] and other[0] < one[1]
