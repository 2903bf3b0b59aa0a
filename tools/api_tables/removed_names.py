"""Which names NumPy no longer has: by the lists in its own text, and by what its modules and stubs define.

A table of all its names would have to follow modules that are compiled. That a name is gone is known without it: NumPy
lists most of the names that it removed, with advice, and any other is gone if an older version's stubs have it, and
nothing in the newer version defines or lists it.
"""

from __future__ import annotations

import ast
import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.api_tables.exports import Exports
from tools.api_tables.published import Release
from tools.api_tables.tables import Snapshot

_DEFINED = re.compile(r"\bdef (\w+)|[\"'](\w+)[\"']")
_LIST_OF_REMOVED = "__expired_attributes__"


@dataclass(frozen=True, slots=True)
class Removing:
    """A package of which only the removed names of its top module are in the tables, and its first version there."""

    package: str
    since: Release

    @property
    def key(self) -> str:
        """What the tables call the package."""
        return self.package


REMOVING = (Removing("numpy", (1, 20)),)


@dataclass(frozen=True, slots=True)
class Texts:
    """One version of a package: the names of its top module's stub, those that its code defines or lists, those that
    it says are removed.
    """

    version: str
    stub: frozenset[str]
    defined: frozenset[str]
    listed: frozenset[str]


def texts_of(package: str, version: str, path: Path) -> Texts:
    """What a wheel or an installed package's folder says about its names."""
    files = dict(_files(package, path))
    code = {name: text for name, text in files.items() if name.endswith(".py")}
    defined = {word for text in code.values() for found in _DEFINED.findall(text) for word in found if word}
    listed = {name for text in code.values() if _may_list(text) for name in _listed(ast.parse(text))}
    stub = ast.parse(files.get(f"{package}/__init__.pyi", ""))
    return Texts(version, frozenset(_stubbed(stub)), frozenset(defined), frozenset(listed))


def removed_snapshots(package: str, versions: Sequence[Texts]) -> list[Snapshot]:
    """For each version, the names that it still has of those that one of them no longer has; oldest first."""
    gone: list[frozenset[str]] = []
    before = frozenset[str]()
    for each in versions:
        gone.append(each.listed | (before - each.stub - each.defined))
        before |= each.stub
    ever = frozenset[str]().union(*gone)
    return [
        Snapshot(each.version, {package: Exports(ever - without, frozenset(), False)}, (), {})
        for each, without in zip(versions, gone, strict=True)
    ]


def _files(package: str, path: Path) -> Iterator[tuple[str, str]]:
    if path.is_dir():
        for file in path.rglob("*.py*"):
            name = file.relative_to(path.parent).as_posix()
            if _is_read(package, name):
                yield name, file.read_text("utf-8", "replace")
        return
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if _is_read(package, name):
                yield name, archive.read(name).decode("utf-8", "replace")


def _is_read(package: str, name: str) -> bool:
    # Masked arrays have functions of their own under names that the top module no longer has.
    is_code = name.endswith(".py") and "/tests/" not in name and not name.startswith(f"{package}/ma/")
    return name.startswith(f"{package}/") and (is_code or name == f"{package}/__init__.pyi")


def _may_list(text: str) -> bool:
    return _LIST_OF_REMOVED in text or "__former_attrs__" in text


def _listed(tree: ast.Module) -> Iterator[str]:
    """The names in `__expired_attributes__`, and those that `__former_attrs__` is made of."""
    before: list[ast.expr] = []
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict(keys=keys)) if name == _LIST_OF_REMOVED:
                yield from _texts(keys)
            case ast.Assign(targets=[ast.Name(id="_type_info")], value=ast.List(elts=before)):
                pass  # several lists have this name: each is used by the statement that follows
            case ast.Assign(targets=[ast.Name(id="__former_attrs__")]):
                yield from _texts([each.elts[0] for each in before if isinstance(each, ast.Tuple)])
            case _:
                pass


def _texts(nodes: Sequence[ast.expr | None]) -> Iterator[str]:
    yield from (each.value for each in nodes if isinstance(each, ast.Constant) and isinstance(each.value, str))


def _stubbed(stub: ast.Module) -> Iterator[str]:
    """The names that a stub declares or exports."""
    for node in stub.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List(elts=listed)):
                yield from _texts(listed)
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                yield from _public(name)
            case ast.Assign(targets=[ast.Name(id=name)]):
                yield from _public(name)
            case ast.ImportFrom(names=names):
                yield from (each.name for each in names if each.asname == each.name)
            case _:
                pass


def _public(name: str) -> Iterator[str]:
    if not name.startswith("_"):
        yield name
