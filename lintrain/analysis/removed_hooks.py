"""Hooks of Lightning's modules and callbacks that a version no longer calls, by the code of their classes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis.built_layers import last_name
from lintrain.knowledge import api, lightning_successors
from lintrain.knowledge.target import Targets
from lintrain.source.source import Source
from lintrain.source.training_syntax import imports
from lintrain.startup.lazy_dataclass import dataclass

OWNERS = {"LightningModule": "lightning.LightningModule", "Callback": "lightning.Callback"}
"""The classes that Lightning calls hooks of, each with its path in the tables."""

PACKAGES = frozenset({"lightning", "pytorch_lightning"})
_IN_FILE = r"_epoch_end\b|_step_end\b|\bon_\w+"


@dataclass(frozen=True, slots=True)
class RemovedHook:
    """A method that the target versions no longer call, the class that it is a hook of, and the last with the hook."""

    node: ast.FunctionDef
    path: str
    last_with: str
    is_refused: bool
    """Whether the Trainer raises an error, rather than just not call it."""
    is_certain: bool
    """Whether any training of the file comes to that error: its only module has the hook."""


def removed_hooks(source: Source, targets: Targets) -> Iterator[RemovedHook]:
    """The hooks of the classes of a file that the library no longer calls, and the script neither."""
    if targets.get("lightning") is None or not source.contains(_IN_FILE):
        return
    owned = list(_owned(source))
    for cls, owner in owned:
        for method in cls.body:
            if not isinstance(method, ast.FunctionDef) or method.name not in lightning_successors.HOOKS:
                continue
            known = api.name_state(OWNERS[owner], method.name, targets)
            is_refused = owner == "LightningModule" and method.name in lightning_successors.RAISING
            if known.state == "gone" and known.last_with and (is_refused or not _is_called(source, method.name)):
                is_only = sum(each == "LightningModule" for _, each in owned) == 1
                is_certain = is_refused and is_only and not method.name.startswith("test")
                yield RemovedHook(method, OWNERS[owner], known.last_with, is_refused, is_certain)


def _owned(source: Source) -> Iterator[tuple[ast.ClassDef, str]]:
    """The classes of a file that derive from one of Lightning's, also by way of another class of the file."""
    meant = source.cached(_names_of_lightning)
    found = dict[str, str]()
    for cls in source.nodes_of(ast.ClassDef) if meant else ():
        owners = {owner for base in cls.bases if (owner := _owner_of(base, meant) or found.get(last_name(base) or ""))}
        # A class with another base may be a callback of two libraries, which the other one calls.
        if len(owners) == 1 and (len(cls.bases) == 1 or owners == {"LightningModule"}):
            found[cls.name] = owners.pop()
            yield cls, found[cls.name]


def _owner_of(base: ast.expr, meant: dict[str, str]) -> str:
    """The class of Lightning that the code of a base stands for; empty if none."""
    name = last_name(base) or ""
    match base:
        case ast.Name(id=bound):
            return meant.get(bound, "")
        case ast.Attribute():
            root: ast.expr = base
            while isinstance(root, ast.Attribute):
                root = root.value
            return name if name in OWNERS and isinstance(root, ast.Name) and meant.get(root.id) == "" else ""
        case _:
            return ""


def _names_of_lightning(source: Source) -> dict[str, str]:
    """The names that imports bind to Lightning's classes, and to its modules (empty text)."""
    found = dict[str, str]()
    for node in imports(source):
        of_package = isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in PACKAGES
        for alias in node.names:
            bound = alias.asname or alias.name.partition(".")[0]
            if of_package and not getattr(node, "level", 0):
                found[bound] = alias.name if alias.name in OWNERS else ""
            elif isinstance(node, ast.Import) and alias.name.partition(".")[0] in PACKAGES:
                found[bound] = ""
    return found


def _is_called(source: Source, name: str) -> bool:
    """Whether the file reads the hook of any object but `super()`: then it may call it itself."""
    used = (node for node in source.nodes_of(ast.Attribute) if node.attr == name)
    return any(not (isinstance(node.value, ast.Call) and last_name(node.value.func) == "super") for node in used)
