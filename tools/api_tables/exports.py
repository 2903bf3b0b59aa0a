"""The names that can be imported from a module, read from its text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tools.api_tables.package_tree import PackageTree, statements

_ALL_LIST = re.compile(r"^__all__\s*=\s*\[(.*?)\]", re.MULTILINE | re.DOTALL)
_QUOTED = re.compile(r"[\"'](\w+)[\"']")
_REQUIRES = re.compile(r"^@requires\b.*?^(?:class|def) (\w+)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Exports:
    """Names that a module offers.

    `own` are the module's, or gathered by a package's `__init__`; `foreign` were merely imported there, yet can be
    imported from it too.
    `is_open` says that the module makes names on demand, so that a missing name may still be importable.
    """

    own: frozenset[str]
    foreign: frozenset[str]
    is_open: bool


def exports(tree: PackageTree, module: str) -> Exports:
    """What can be imported from a module of the package."""
    if tree.is_lazy(module):
        return Exports(frozenset(_lazy_names(tree, module)), _mentioned(tree, module), False)
    own, foreign, is_open = _plain_names(tree, module, frozenset())
    return Exports(frozenset(own | tree.children(module)), frozenset(foreign - own), is_open)


def open_endings(tree: PackageTree) -> tuple[str, ...]:
    """Endings of names that the lazy stand-in makes up on demand (`TokenizerFast` in transformers 5)."""
    found: set[str] = set()
    for module in sorted(tree.sources):
        if module.endswith("import_utils") and "_LazyModule" in tree.sources[module]:
            found.update(_tested_endings(tree.tree(module)))
    return tuple(sorted(found))


def _tested_endings(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef) and node.name == "__getattr__":
            for call in ast.walk(node):
                match call:
                    case ast.Call(func=ast.Attribute(attr="endswith"), args=[ast.Constant(value=str(ending))]):
                        yield ending
                    case _:
                        pass


def _lazy_names(tree: PackageTree, module: str) -> Iterator[str]:
    yield from tree.structure(module)
    yield from tree.children(module)
    if "define_import_structure(" in tree.sources[module]:
        folder = f"{module}.models" if module == tree.package else module
        for below, source in tree.sources.items():
            if below.startswith(f"{folder}.") and not below.rpartition(".")[2].startswith(("convert_", "modular_")):
                yield from _declared(source)


def _mentioned(tree: PackageTree, module: str) -> frozenset[str]:
    """Names in quotes anywhere in a lazy module: old submodules may live on behind an import hook."""
    constants = (node.value for node in ast.walk(tree.tree(module)) if isinstance(node, ast.Constant))
    return frozenset(text for text in constants if isinstance(text, str) and text.isidentifier())


def _declared(source: str) -> Iterator[str]:
    for listed in _ALL_LIST.findall(source):
        yield from _QUOTED.findall(listed)
    if "@requires" in source:
        yield from _REQUIRES.findall(source)


def _plain_names(tree: PackageTree, module: str, above: frozenset[str]) -> tuple[set[str], set[str], bool]:
    own: set[str] = set()
    foreign: set[str] = set()
    is_open = False
    for statement in statements(tree.tree(module)):
        is_open = is_open or _adds_names(statement)
        own.update(_bound(statement))
        if isinstance(statement, ast.ImportFrom):
            source = tree.absolute(module, statement)
            inside = source.split(".")[0] == tree.package
            gathers = inside and module in tree.packages
            for alias in statement.names:
                if alias.name != "*":
                    (own if gathers else foreign).add(alias.asname or alias.name)
                elif not inside:
                    is_open = True
                elif source not in above:
                    starred = _starred_names(tree, source, above | {module})
                    own, foreign, is_open = own | starred[0], foreign | starred[1], is_open or starred[2]
        elif isinstance(statement, ast.Import):
            foreign.update(alias.asname or alias.name.split(".")[0] for alias in statement.names)
    return own, foreign, is_open


def _starred_names(tree: PackageTree, module: str, above: frozenset[str]) -> tuple[set[str], set[str], bool]:
    listed = _ALL_LIST.findall(tree.sources.get(module, ""))
    if listed:
        return {name for text in listed for name in _QUOTED.findall(text)}, set(), False
    own, foreign, is_open = _plain_names(tree, module, above)
    return own | tree.children(module), foreign, is_open


def _bound(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            yield statement.name
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.For():
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                yield from (
                    node.id
                    for node in ast.walk(target)
                    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
                )
        case _:
            pass


def _adds_names(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.FunctionDef):
        return statement.name == "__getattr__"
    if isinstance(statement, ast.ClassDef):
        return False
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "globals"
        for node in ast.walk(statement)
    )
