"""The modules of a package as syntax trees, and where a name of one is really defined."""

from __future__ import annotations

import ast
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

Definition = ast.ClassDef | ast.FunctionDef


@dataclass(frozen=True, slots=True)
class Found:
    """A class or function and the module that defines it; `node` is None for a name of another package."""

    module: str
    name: str
    node: Definition | None


@dataclass
class PackageTree:
    """One version of a package: dotted module name to source text, parsed on demand.

    `packages` are the modules that are an `__init__.py`.
    """

    package: str
    sources: Mapping[str, str]
    packages: frozenset[str]
    _trees: dict[str, ast.Module] = field(default_factory=dict[str, ast.Module])
    _structures: dict[str, dict[str, list[str]]] = field(default_factory=dict[str, dict[str, list[str]]])

    _defined: dict[str, dict[str, Definition | tuple[str, str]]] = field(
        default_factory=dict[str, dict[str, Definition | tuple[str, str]]]
    )
    _starred: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    @classmethod
    def of_file(cls, package: str, path: Path) -> PackageTree:
        """The tree of a wheel, a source archive or an installed package's folder."""
        if path.is_dir():
            files = {file.relative_to(path.parent).as_posix(): file.read_bytes() for file in path.rglob("*.py")}
        elif path.suffix == ".whl":
            with zipfile.ZipFile(path) as archive:
                files = {name: archive.read(name) for name in archive.namelist() if name.endswith(".py")}
        else:
            files = dict(_source_archive(path))
        sources = {
            _dotted(name): content.decode("utf-8", "replace")
            for name, content in files.items()
            if name.startswith(f"{package}/")
        }
        return cls(package, sources, frozenset(_dotted(name) for name in files if name.endswith("/__init__.py")))

    def tree(self, module: str) -> ast.Module:
        """The syntax tree of a module; empty where the package has no such module."""
        if module not in self._trees:
            self._trees[module] = ast.parse(self.sources.get(module, ""))
        return self._trees[module]

    def structure(self, module: str) -> dict[str, list[str]]:
        """What the module's `_import_structure` promises: name to the submodules that hold it."""
        if module not in self._structures:
            self._structures[module] = lazy_structure(self.tree(module))
        return self._structures[module]

    def children(self, module: str) -> set[str]:
        """The short names of the modules right below a module."""
        prefix = f"{module}."
        return {name[len(prefix) :].split(".")[0] for name in self.sources if name.startswith(prefix)} - {"__main__"}

    def absolute(self, module: str, statement: ast.ImportFrom) -> str:
        """The full name of the module that a `from … import` statement reads."""
        if not statement.level:
            return statement.module or ""
        base = module if module in self.packages else module.rpartition(".")[0]
        for _ in range(statement.level - 1):
            base = base.rpartition(".")[0]
        return f"{base}.{statement.module}" if statement.module else base

    def find(self, module: str, name: str, depth: int = 0) -> Found | None:
        """The class or function that a name of a module stands for, followed through imports and lazy tables."""
        if depth > 12 or module.startswith("transformers.models"):
            # The thousand files of model code would take most of the time and hold nothing that the tables keep.
            return None
        if module.split(".")[0] != self.package:
            return Found(module, name, None)
        match self._definitions(module).get(name):
            case ast.ClassDef() | ast.FunctionDef() as node:
                return Found(module, name, node)
            case (source, other) if (source, other) != (module, name):
                return self.find(source, other, depth + 1)
            case _:
                pass
        below = [f"{module}.{each}" for each in self.structure(module).get(name, ()) if "dummy" not in each]
        starred = [] if self.is_lazy(module) else self._starred[module]
        return next(
            (found for each in below + starred if (found := self.find(each, name, depth + 1)) is not None), None
        )

    def imported_module(self, module: str, name: str) -> str | None:
        """The module of the package that a name of a module stands for, as in `from keras.src import backend`."""
        match self._definitions(module).get(name):
            case (source, other) if f"{source}.{other}" in self.sources:
                return f"{source}.{other}"
            case _:
                return None

    def is_lazy(self, module: str) -> bool:
        """Whether the module puts a lazy stand-in in its own place, which knows only the names of its table."""
        source = self.sources.get(module, "")
        return "_LazyModule(" in source and "sys.modules[__name__]" in source

    def _definitions(self, module: str) -> dict[str, Definition | tuple[str, str]]:
        """What a module's names stand for: a definition, or a name of some module; the first one given counts."""
        if module not in self._defined:
            known: dict[str, Definition | tuple[str, str]] = {}
            starred: list[str] = []
            for statement in statements(self.tree(module)):
                match statement:
                    case ast.FunctionDef() if is_overload(statement):
                        pass  # its arguments are those of one kind of call
                    case ast.ClassDef() | ast.FunctionDef():
                        known.setdefault(statement.name, statement)
                    case ast.Assign(targets=[ast.Name(id=target)], value=ast.Name(id=other)):
                        known.setdefault(target, (module, other))
                    case ast.Assign(
                        targets=[ast.Name(id=target)], value=ast.Call(func=called, args=[ast.Name(id=other)])
                    ):
                        if ast.unparse(called) in ("partial", "functools.partial"):  # its keywords can be given again
                            known.setdefault(target, (module, other))
                    case ast.ImportFrom():
                        source = self.absolute(module, statement)
                        for alias in statement.names:
                            known.setdefault(alias.asname or alias.name, (source, alias.name))
                        if "*" in known and source.split(".")[0] == self.package and source != module:
                            starred += [source] if known.pop("*") else []
                    case _:
                        pass
            self._defined[module], self._starred[module] = known, starred
        return self._defined[module]


def is_overload(node: ast.FunctionDef) -> bool:
    """Whether a definition only describes one kind of call for type checkers."""
    return any(ast.unparse(each) in {"overload", "typing.overload"} for each in node.decorator_list)


def statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Every statement that runs when a module is imported, those inside `if`, `try` and `with` too."""
    waiting: list[ast.stmt] = list(reversed(tree.body))
    while waiting:
        statement = waiting.pop()
        yield statement
        if isinstance(statement, ast.If | ast.Try | ast.With | ast.For):
            inner = [*statement.body]
            inner += [] if isinstance(statement, ast.With) else statement.orelse
            if isinstance(statement, ast.Try):
                inner += [each for handler in statement.handlers for each in handler.body] + statement.finalbody
            waiting.extend(reversed(inner))


def lazy_structure(tree: ast.Module) -> dict[str, list[str]]:
    """What a module's `_import_structure` table promises: name to the submodules that hold it.

    A submodule that is named as a key stands in the table too, with no place to look for it.
    """
    table: dict[str, list[str]] = {}
    for statement in statements(tree):
        for submodule, names in _lazy_entries(statement):
            table.setdefault(submodule.split(".")[0], [])
            for name in names:
                table.setdefault(name, []).append(submodule)
    return table


def _lazy_entries(statement: ast.stmt) -> Iterator[tuple[str, list[str]]]:
    match statement:
        case ast.Assign(targets=[ast.Name(id="_import_structure")], value=ast.Dict(keys=keys, values=values)):
            for key, value in zip(keys, values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value, _strings(value)
        case (
            ast.Assign(targets=[ast.Subscript() as location], value=value)
            | ast.AugAssign(target=ast.Subscript() as location, value=value)
        ):
            if (submodule := _lazy_key(location)) is not None:
                yield submodule, _strings(value)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=location, attr="extend" | "append"), args=[value])):
            if (submodule := _lazy_key(location)) is not None:
                yield submodule, _strings(value)
        case _:
            pass


def _lazy_key(location: ast.expr) -> str | None:
    match location:
        case ast.Subscript(value=ast.Name(id="_import_structure"), slice=ast.Constant(value=str(key))):
            return key
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="_import_structure"), attr="setdefault"),
            args=[ast.Constant(value=str(key)), *_],
        ):
            return key
        case _:
            return None


def _strings(value: ast.expr) -> list[str]:
    items = value.elts if isinstance(value, ast.List | ast.Tuple | ast.Set) else [value]
    return [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]


def _source_archive(path: Path) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(path) as archive:
        for member in archive.getmembers():
            if member.name.endswith(".py") and (stream := archive.extractfile(member)) is not None:
                yield member.name.split("/", 1)[-1].removeprefix("src/"), stream.read()


def _dotted(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
