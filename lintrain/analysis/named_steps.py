"""Steps of a list of transforms that are made before it: `normalize = Normalize(mean, std)`."""

from __future__ import annotations

import ast
from collections import Counter

from lintrain.source.nodes import unparse
from lintrain.source.source import Source


def written_step(source: Source, step: ast.expr) -> ast.expr:
    """The call that a name, or an attribute, of a list stands for; the step itself if that is not certain."""
    if not isinstance(step, ast.Name | ast.Attribute):
        return step
    return source.cached(_made_once).get(unparse(step), step)


def _made_once(source: Source) -> dict[str, ast.expr]:
    """The calls that a file gives to a name which it binds nowhere else, or to an attribute."""
    bound = Counter(each.id for each in source.nodes_of(ast.Name) if isinstance(each.ctx, ast.Store))
    bound.update(each.arg for each in source.nodes_of(ast.arg))
    bound.update(unparse(each) for each in source.nodes_of(ast.Attribute) if isinstance(each.ctx, ast.Store))
    found: dict[str, ast.expr] = {}
    for node in source.nodes_of(ast.Assign):
        match node:
            case ast.Assign(targets=[ast.Name() | ast.Attribute() as target], value=ast.Call() as made):
                if bound[unparse(target)] == 1:
                    found[unparse(target)] = made
            case _:
                pass
    return found
