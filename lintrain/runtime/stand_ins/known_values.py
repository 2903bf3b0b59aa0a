"""An argument that a script looks up in a table of its own: `MODELS[arguments.model_type]`."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from lintrain.runtime.stand_ins.expressions import raised, value_of


def asked_argument(error: BaseException, made: Mapping[str, str]) -> dict[str, str]:
    """The arguments, of those whose value was `made` up, that need a key of a dictionary; empty for other errors."""
    key = error.args[0] if isinstance(error, KeyError) and error.args else None
    same = [name for name, value in made.items() if isinstance(key, str) and value == key]
    where = next(raised(error), None)
    if not same or where is None or not isinstance(where.node, ast.Subscript):
        return {}
    table: Any = value_of(where.node.value, where.frame)
    keys = [each for each in table if isinstance(each, str)] if type(table) is dict else []
    # Several arguments may have the same value: those with the name that the table is asked by are meant.
    asked = {_last_name(each) for each in ast.walk(where.node.slice)} - {""}
    named = [name for name in same if any(name == each or name.endswith(f"_{each}") for each in asked)]
    return dict.fromkeys(named or same, keys[0]) if keys else {}


def _last_name(node: ast.AST) -> str:
    """`model_type` of the name, or of `arguments.model_type`."""
    return (node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else "").lower()
