"""The Python that a tool runs for a configuration file, as a syntax tree with the locations of the file.

The tree is never run and never shown: it is what the interpreter reads, so that every rule judges a file as it judges a
script. Each argument is where its key is; a call is where the section is that it is made of.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import TypeVar

from lintrain.configurations.document import UNREAD, Entry, Items, Node, Scalar, Section
from lintrain.model.location import Location
from lintrain.startup.lazy_dataclass import dataclass

Placed = TypeVar("Placed", bound=ast.AST)

UNKNOWN = "_"
"""A name without a value: what the file does not say."""


@dataclass(frozen=True, slots=True)
class Keyword:
    """One argument of a call; without a name it stands for others that are not known."""

    name: str | None
    value: ast.expr
    location: Location


class Program:
    """Statements in the order in which the tool runs them."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.body: list[ast.stmt] = []
        self.imported = dict[str, Location]()
        self.is_part = False
        """Whether it is a section of a file that another program reads, which may add what the section leaves out."""

    @property
    def module(self) -> ast.Module:
        """The whole program, its imports first."""
        imports = [_import(name, location) for name, location in self.imported.items()]
        return ast.Module(body=[*imports, *self.body], type_ignores=[])

    def call(self, path: str, location: Location, keywords: Iterable[Keyword], *, is_open: bool = False) -> ast.Call:
        """A call of a library's function by its dotted path; an open one may get more than the file shows."""
        given = [self._keyword(each) for each in keywords]
        if is_open:
            given.append(self.at(ast.keyword(None, self.unknown(location)), _start(location)))
        return self.at(ast.Call(self._path(path, location), [], given), location)

    def method(self, owner: str, name: str, location: Location) -> ast.Call:
        """A call of a method of something that was assigned before, without arguments."""
        callee = ast.Attribute(self.name(owner, location), name, ast.Load())
        return self.at(ast.Call(self.at(callee, _start(location)), [], []), location)

    def assign(self, name: str, value: ast.expr, location: Location) -> None:
        """`name = value`."""
        target = self.at(ast.Name(name, ast.Store()), _start(location))
        self.body.append(self.at(ast.Assign([target], value), location))

    def do(self, value: ast.expr, location: Location) -> None:
        """An expression for what it does."""
        self.body.append(self.at(ast.Expr(value), location))

    def name(self, name: str, location: Location) -> ast.expr:
        """Something that was assigned before."""
        return self.at(ast.Name(name, ast.Load()), _start(location))

    def unknown(self, location: Location) -> ast.expr:
        """A value that the file does not show."""
        return self.name(UNKNOWN, location)

    def constant(self, value: object, location: Location) -> ast.expr:
        """A literal of the tool itself, which belongs to what is at the location."""
        return self.at(ast.Constant(value), location)  # type: ignore[arg-type] # any literal

    def item(self, owner: ast.expr, key: ast.expr, location: Location) -> ast.expr:
        """`owner[key]`."""
        return self.at(ast.Subscript(owner, key, ast.Load()), location)

    def value(self, node: Node) -> ast.expr:
        """The value of a node as a literal."""
        match node:
            case Scalar():
                is_known = node.value is not UNREAD and not _is_interpolated(node.text)
                return self.constant(node.value, node.location) if is_known else self.unknown(node.location)
            case Items():
                return self.at(ast.List([self.value(each) for each in node.items], ast.Load()), node.location)
            case Section():
                keys: list[ast.expr | None] = [self.constant(each.key, each.key_location) for each in node.entries]
                values = [self.value(each.value) for each in node.entries]
                return self.at(ast.Dict(keys, values), node.location)

    def keyword(self, entry: Entry, name: str | None = None, value: ast.expr | None = None) -> Keyword:
        """An entry as an argument, under another name if one is given."""
        return Keyword(name or entry.key, value or self.value(entry.value), entry.location)

    def keywords(self, section: Section, names: Iterable[str] | None = None) -> list[Keyword]:
        """The entries of a section as arguments, those of these names only."""
        wanted = None if names is None else frozenset(names)
        return [self.keyword(each) for each in _once(section) if wanted is None or each.key in wanted]

    def renamed(self, section: Section, names: dict[str, str]) -> list[Keyword]:
        """The entries that have another name in the library, as arguments with that name; each name once."""
        found = {names[each.key]: self.keyword(each, names[each.key]) for each in _once(section) if each.key in names}
        return list(found.values())

    def at(self, node: Placed, location: Location) -> Placed:
        """The node at a location of the file: the parser counts bytes, a location counts characters."""
        node.lineno, node.end_lineno = location.line, location.end_line  # type: ignore[attr-defined]
        node.col_offset = self._byte(location.line, location.column)  # type: ignore[attr-defined]
        node.end_col_offset = self._byte(location.end_line, location.end_column)  # type: ignore[attr-defined]
        return node

    def _byte(self, line: int, column: int) -> int:
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        return column - 1 if text.isascii() else len(text[: column - 1].encode())

    def _keyword(self, keyword: Keyword) -> ast.keyword:
        return self.at(ast.keyword(keyword.name, keyword.value), keyword.location)

    def _path(self, path: str, location: Location) -> ast.expr:
        """The callee, which is written nowhere: a range without characters."""
        first, *others = path.split(".")
        self.imported.setdefault(first, _start(location))
        node = self.name(first, location)
        for part in others:
            node = self.at(ast.Attribute(node, part, ast.Load()), _start(location))
        return node


def _once(section: Section) -> list[Entry]:
    """The entries of a section, of a key that is written twice the last."""
    return list({each.key: each for each in section.entries}.values())


def _start(location: Location) -> Location:
    return Location(location.path, location.line, location.column, location.line, location.column)


def _import(name: str, location: Location) -> ast.stmt:
    alias = ast.alias(name)
    statement = ast.Import([alias])
    for node in (alias, statement):
        node.lineno = node.end_lineno = location.line
        node.col_offset = node.end_col_offset = 0
    return statement


def _is_interpolated(text: str) -> bool:
    """Whether a value is computed from others or from the environment: `${oc.env:HOME}`, `{{ rate }}`, `$RATE`."""
    return "${" in text or "{{" in text or text.startswith("$")
