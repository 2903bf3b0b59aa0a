"""Assignments to an attribute that torch does not know and that is meant for `requires_grad`, on whatever object."""

from __future__ import annotations

import ast

from lintrain.libraries.torch.freezing import MISSPELT
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Misspelt:
    """A statement such as `parameter.require_grad = False`: its code is `owner.name = value`."""

    statement: ast.Assign
    owner: str
    name: str
    value: str


def misspelt_freezes(source: Source) -> list[Misspelt]:
    """The misspelt freezes of a file; an attribute that the file also reads is one of its own."""
    return source.cached(_misspelt_freezes)


def _misspelt_freezes(source: Source) -> list[Misspelt]:
    if not any(name in source.text for name in MISSPELT):
        return []
    looped = {each.id for loop in source.nodes_of(ast.For) for each in walk(loop.target) if isinstance(each, ast.Name)}
    read = {each.attr for each in source.nodes_of(ast.Attribute) if isinstance(each.ctx, ast.Load)}
    found: list[Misspelt] = []
    for node in source.nodes_of(ast.Assign):
        match node:
            case ast.Assign(targets=[ast.Attribute(value=owner, attr=name)], value=ast.Constant(value=bool() as value)):
                # A tensor that a function made itself needs no gradient anyway: `table = torch.zeros(8)`.
                is_part = isinstance(owner, ast.Attribute) or (isinstance(owner, ast.Name) and owner.id in looped)
                if name in MISSPELT and name not in read and is_part:
                    found.append(Misspelt(node, unparse(owner), name, str(value)))
            case _:
                pass
    return found
