"""Functions and classes in a file of their own."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from tests.metamorphic.script import BUILTINS, Function, Line, Script, free_names

NAME = "moved_parts"
Definition = Function | ast.ClassDef


def move_definitions(script: Script, focus: frozenset[int]) -> Script | None:
    """Every function and class of the top level that needs nothing but imports and its like moves to another file.

    An import that both files need stands in both. If a finding lies on it, it would be said twice, and rightly so.
    """
    imports = [node for node in script.tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    moved = _movable(script, imports)
    if not moved or any(line.origin in focus for node in imports for line in script.cut(*script.span(node))):
        return None
    lines = [line for statement in [*imports, *moved] for line in [*script.cut(*script.span(statement)), Line("")]]
    first, *rest = moved
    asked = Line(f"from {'.' if script.in_package else ''}{NAME} import {', '.join(one.name for one in moved)}")
    gone = {script.span(definition): list[Line]() for definition in rest}
    made = script.with_lines({script.span(first): [asked], **gone})
    return replace(made, beside={**script.beside, f"{NAME}.py": tuple(lines)})


def _movable(script: Script, imports: Sequence[ast.Import | ast.ImportFrom]) -> list[Definition]:
    """The definitions that read no variable of the script, nor another that does; none is bound a second time."""
    imported = {alias.asname or alias.name.split(".")[0] for node in imports for alias in node.names}
    definitions = [node for node in script.tree.body if isinstance(node, Definition)]
    bound_again = {
        node.id for node in ast.walk(script.tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    movable = {one.name: one for one in definitions if one.name not in bound_again and not _names_the_module(one)}
    needs = {name: free_names(one) - imported - BUILTINS - {name} for name, one in movable.items()}
    while stuck := [name for name in movable if not needs[name] <= movable.keys()]:
        for name in stuck:
            del movable[name]
    return list(movable.values())


def _names_the_module(definition: Definition) -> bool:
    """Whether it says of itself which module it stands in."""
    return any(
        isinstance(node, ast.Global) or (isinstance(node, ast.Name) and node.id in ("__name__", "__file__", "globals"))
        for node in ast.walk(definition)
    )
