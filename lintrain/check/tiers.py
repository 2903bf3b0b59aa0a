"""Which files are worth reading: most end at a scan of their bytes, others at a walk over their syntax tree."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.core.lazy_pattern import lazy_pattern
from lintrain.source.project import ModuleFile, Project
from lintrain.source.source import Source

LIBRARIES = lazy_pattern(
    rb"\b(?:accelerate|datasets|evaluate|keras|lightning|peft|pytorch_lightning|sklearn|tensorflow|torch|transformers|trl)\b"
)
"""A file that names none of these holds no training run that the reader knows."""

IMPORTS = lazy_pattern(r"^[ \t]*(?:from|import)\s+[\w.]", re.MULTILINE)

MOST_IMPORTS = 40
"""Imports of a script that are looked at for a module that trains."""


def names_library(raw: bytes) -> bool:
    """Whether a file may hold a training run: the byte scan that most files end at."""
    return LIBRARIES.search(raw) is not None


def is_worth_reading(source: Source, project: Project | None) -> bool:
    """Whether the script, or a module of its project that it imports, can hold anything that a rule looks at."""
    text = source.text
    is_ours = names_library(text.encode(errors="replace"))
    if not is_ours and (project is None or not IMPORTS.search(text)):
        return False
    from lintrain.pipeline.quick import may_train, runs_itself

    is_script = project is not None and runs_itself(source)
    if not is_ours and not is_script:
        return False

    if is_ours and source.told(may_train):
        return True
    return project is not None and is_script and _imports_training(source, project)


def _imports_training(source: Source, project: Project) -> bool:
    """Whether one of the modules of the project that a script names in its imports may train."""
    from lintrain.pipeline.quick import may_train

    seen = set[str]()
    for module in _modules(source, project):
        if module.file is None or module.file in seen or not project.contains(module.file, LIBRARIES):
            continue
        seen.add(module.file)
        code = project.load(module.file)
        if code is not None and code.told(may_train):
            return True
    return False


def _modules(source: Source, project: Project) -> Iterator[ModuleFile]:
    """The modules of the project that the imports at the top level of a script mean."""
    statements = [node for node in source.tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    for statement in statements[:MOST_IMPORTS]:
        for module, names in _named(source, project, statement):
            yield module
            below = (project.submodule(module, name) for name in names[:MOST_IMPORTS])
            yield from (each for each in below if each is not None)


def _named(
    source: Source, project: Project, statement: ast.Import | ast.ImportFrom
) -> Iterator[tuple[ModuleFile, list[str]]]:
    if isinstance(statement, ast.Import):
        found = [(project.find(source.path, alias.name), list[str]()) for alias in statement.names]
    else:
        names = [alias.name for alias in statement.names]
        path = statement.module or ""
        level = statement.level
        module = project.find_relative(source.path, level, path) if level else project.find(source.path, path)
        found = [(module, names)]
    yield from ((module, names) for module, names in found if module is not None)
