"""Whether the code of a class is in the files of a script, with that of the classes that it derives from."""

from __future__ import annotations

import ast

from lintrain.analysis.built_layers import last_name
from lintrain.analysis.script_text import nodes_of_kind
from lintrain.pipeline.record import Pipeline

DEEPEST = 4
"""Classes above each other that are looked up."""


def is_read_whole(pipeline: Pipeline, owner: ast.ClassDef, depth: int = 0) -> bool:
    """Whether the code of a class and of those that it derives from is in files of the script."""
    if owner.keywords or depth > DEEPEST:
        return False
    for base in owner.bases:
        found = [each for each in nodes_of_kind(pipeline, ast.ClassDef) if each.name == last_name(base)]
        if len(found) != 1 or not is_read_whole(pipeline, found[0], depth + 1):
            return False
    return True
