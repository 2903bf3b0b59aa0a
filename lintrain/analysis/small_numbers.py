"""Numbers that are small by themselves: cosines, votes, and what is computed from them and constants."""

from __future__ import annotations

import ast

from lintrain.analysis.built_layers import last_name
from lintrain.source.nodes import own_nodes, unparse

SMALL = frozenset({"cosine_similarity", "cos_sim", "tanh", "hardtanh", "sigmoid", "softmax"})
"""Functions whose results are between -1 and 1: no sigmoid of one is near 0."""

LARGEST = 10
"""What a small number may be multiplied by and remain one."""


def is_small(scope: ast.AST, node: ast.expr, depth: int) -> bool:
    """Whether an expression is computed from small numbers and constants alone: `3 * (torch.sigmoid(x).sum() - 2)`."""
    match node:
        case ast.UnaryOp(operand=operand):
            return is_small(scope, operand, depth)
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult(), left=left, right=right):
            sides = [is_small(scope, each, depth) for each in (left, right)]
            return any(sides) and all(
                is_small or _is_number(scope, each, depth) for is_small, each in zip(sides, (left, right), strict=True)
            )
        case ast.Name() if depth:
            # The last value above it: a similarity often goes on under its name.
            value = last_value(scope, node)
            return value is not None and is_small(scope, value, depth - 1)
        case ast.Call(func=ast.Attribute(value=owner, attr="sum" | "mean" | "squeeze" | "view" | "reshape")):
            return is_small(scope, owner, depth)
        case ast.Call(func=func):
            return last_name(func) in SMALL
        case _:
            return False


def _is_number(scope: ast.AST, node: ast.expr, depth: int) -> bool:
    """Whether an expression is a number of the script: a constant, a setting, or computed from these."""
    match node:
        case ast.Constant(value=int() | float() as constant):
            return abs(constant) <= LARGEST
        case ast.BinOp(left=left, right=right):
            return _is_number(scope, left, depth) and _is_number(scope, right, depth)
        case ast.Attribute(value=ast.Name(id=owner)):
            return owner in {"args", "cfg", "config", "opt", "options"}
        case ast.Name() if depth:
            value = last_value(scope, node)
            return value is not None and _is_number(scope, value, depth - 1)
        case _:
            return False


def last_value(scope: ast.AST, name: ast.Name) -> ast.expr | None:
    """What a name was bound to last above a line of its scope, None if that is not written there."""
    above = [each for each in own_nodes(scope) if isinstance(each, ast.Assign) and each.lineno < name.lineno]
    values = [(each.lineno, each.value) for each in above if name.id in map(unparse, each.targets)]
    return max(values, key=lambda each: each[0], default=(0, None))[1]
