"""Imports of names that a module of the project does not have: `from utils import make_loader` after it was renamed."""

from __future__ import annotations

import ast
import re
import sys
from functools import lru_cache

from lintrain.interpreter.core.reader import Reader
from lintrain.pipeline.record import MissingName
from lintrain.source.project import ModuleFile, Project

MAKES_NAMES = rb"import\s*\(?\s*\*|__getattr__|\b(?:globals|locals|vars|exec|eval|setattr)\s*\(|__dict__|sys\.modules"
"""Code after which a module may have names that its text does not contain."""

NEAR = 0.6
"""How similar a name must be to be the likely one."""


def note(reader: Reader, node: ast.ImportFrom, own: ModuleFile, alias: ast.alias) -> None:
    """Record an import that fails in every run of the script: no module that may be meant contains the name."""
    project, script = reader.modules.project, reader.record.source
    # A module that the script imports is judged when it is checked itself; a package may have compiled modules.
    if project is None or reader.source is not script or reader.guards or reader.conditions or alias.name == "*":
        return
    module = node.module or ""
    if not node.level and module.partition(".")[0] in sys.stdlib_module_names:
        return
    meant = [own] if node.level else project.of_that_name(script.path, module)
    if meant and all(_lacks(project, each, alias.name) for each in meant):
        near = _near(project, own, alias.name)
        name = "." * node.level + module
        reader.record.missing_names.append(MissingName(name, alias.name, reader.source.location(alias), near))


@lru_cache(maxsize=1_000)
def _pattern(name: str) -> re.Pattern[bytes]:
    return re.compile(rb"\b" + re.escape(name).encode() + rb"\b|" + MAKES_NAMES)


def _lacks(project: Project, module: ModuleFile, name: str) -> bool:
    """Whether a module is a file whose text contains a name nowhere, and that makes none while it runs."""
    if module.file is None or module.folder is not None or project.contains(module.file, _pattern(name)):
        return False
    return project.load(module.file) is not None


def _near(project: Project, module: ModuleFile, name: str) -> str:
    """The function or class of a module whose name is most like another one; empty if none is."""
    from difflib import get_close_matches

    source = project.load(module.file) if module.file else None
    body = source.tree.body if source is not None else []
    has = [each.name for each in body if isinstance(each, ast.FunctionDef | ast.ClassDef)]
    return next(iter(get_close_matches(name, has, n=1, cutoff=NEAR)), "")
