"""Code as people paste it: without imports."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from tests.metamorphic.script import Line, Script


def drop_imports(script: Script, focus: frozenset[int]) -> Script | None:
    """The script without its imports; None for a project, whose files need each other."""
    if script.in_project:
        return None
    gone: dict[tuple[int, int], Sequence[Line]] = {}
    for block in script.blocks():
        imports = [node for node in block if isinstance(node, ast.Import | ast.ImportFrom)]
        if imports and len(imports) == len(block):
            return None
        gone |= {script.span(node): [] for node in imports}
    return script.with_lines(gone) if gone else None
