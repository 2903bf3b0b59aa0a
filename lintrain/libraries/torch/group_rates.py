"""Whether code sets the learning rates of an optimizer's groups, or only reads them to show them."""

from __future__ import annotations

import ast

from lintrain.source.nodes import unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_pattern import lazy_pattern

CHANGES = lazy_pattern(r"(?:group\w*|\]|params?)\.(?:update|setdefault|pop|clear|__setitem__)\(")
GROUP = lazy_pattern(r"(?i)group|\bpg\b|\bg\b|\bparams?\b|\bp\b")
"""Code that changes entries of a group, and names of one."""

READS = frozenset({"len", "enumerate", "zip", "list", "iter", "print", "reversed", "range", "sum", "max", "min"})
"""Functions that leave the groups that they get as they are."""


def sets_rates(source: Source) -> bool:
    """Whether a file may set rates of groups: `group["lr"] = …`, or groups that other code gets."""
    return source.cached(_sets_rates)


def _sets_rates(source: Source) -> bool:
    kinds = (ast.Subscript, ast.Call, ast.Assign)
    return source.contains(CHANGES) or any(_may_set(node) for kind in kinds for node in source.nodes_of(kind))


def _may_set(node: ast.AST) -> bool:
    match node:
        case ast.Subscript(value=owner, slice=key, ctx=ast.Store()):
            is_rate = isinstance(key, ast.Constant) and isinstance(key.value, str) and key.value in {"lr", "initial_lr"}
            return is_rate or (not isinstance(key, ast.Constant) and GROUP.search(unparse(owner)) is not None)
        case ast.Call(func=called, args=args, keywords=keywords):
            given = [*args, *(each.value for each in keywords)]
            leaves = isinstance(called, ast.Name) and called.id in READS
            return not leaves and any(isinstance(each, ast.Attribute) and each.attr == "param_groups" for each in given)
        case ast.Assign(targets=targets):
            return any(isinstance(each, ast.Attribute) and each.attr == "param_groups" for each in targets)
        case _:
            return False
