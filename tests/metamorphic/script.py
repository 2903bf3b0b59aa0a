"""A script as lines that know where they came from: whatever is done to it, each line can be traced back."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

BUILTINS = frozenset(dir(builtins))
SCOPES = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
Function = ast.FunctionDef | ast.AsyncFunctionDef
TELLING = re.compile(r"eval|val|test|dev|predict|infer|train|fit", re.IGNORECASE)
"""Names of functions that tell what is done in them: a forward pass in `test` is an evaluation because it stands there,
to people as to the reader. What is taken out of such a function, or put in its place, says less than it did."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line and the number that it had in the original script; 0 for a line that was not there."""

    text: str
    origin: int = 0
    others: tuple[int, ...] = ()
    """The numbers of the other lines, if it replaces several."""

    @property
    def origins(self) -> tuple[int, ...]:
        """The numbers of all lines that it replaces."""
        return (self.origin, *self.others)


@dataclass(frozen=True)
class Script:
    """The lines of one script, and the files that were split off from it, by name."""

    lines: tuple[Line, ...]
    beside: dict[str, tuple[Line, ...]] = field(default_factory=dict[str, tuple[Line, ...]])
    is_entry: bool = True
    """Whether it is what one starts, and no module that others import."""
    in_package: bool = False
    """Whether the files beside it are imported with a dot."""
    has_cells: bool = False
    """Whether each statement of its top level becomes the cell of a notebook."""
    in_project: bool = False
    """Whether it is one file of a project."""

    @classmethod
    def of(cls, text: str, is_entry: bool = True, in_package: bool = False, in_project: bool = False) -> Script:
        """The script with this text, its lines numbered."""
        lines = tuple(Line(line, number) for number, line in enumerate(text.split("\n"), start=1))
        return cls(lines, is_entry=is_entry, in_package=in_package, in_project=in_project)

    @cached_property
    def text(self) -> str:
        """The text of the script."""
        return "\n".join(line.text for line in self.lines)

    @property
    def other_texts(self) -> dict[str, str]:
        """The texts of the files that were split off, by name."""
        return {name: "\n".join(line.text for line in lines) for name, lines in self.beside.items()}

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree of the text."""
        return ast.parse(self.text)

    @cached_property
    def inside_strings(self) -> frozenset[int]:
        """The numbers of lines that start inside of a string, which no indentation may change."""
        return frozenset(
            number
            for node in ast.walk(self.tree)
            if isinstance(node, ast.JoinedStr)
            or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))
            for number in range(node.lineno + 1, (node.end_lineno or node.lineno) + 1)
        )

    def span(self, statement: ast.stmt) -> tuple[int, int]:
        """The first line of a statement, its decorators and the comments right above it, and the last one; from 1."""
        first = min([statement.lineno, *(node.lineno for node in getattr(statement, "decorator_list", []))])
        while first > 1 and self.lines[first - 2].text.startswith(" " * statement.col_offset + "#"):
            first -= 1
        return first, statement.end_lineno or statement.lineno

    def fills_lines(self, statement: ast.stmt) -> bool:
        """Whether nothing else stands on the lines of a statement."""
        first, last = self.lines[statement.lineno - 1].text, self.lines[(statement.end_lineno or 1) - 1].text
        before = first.encode()[: statement.col_offset].decode()
        after = last.encode()[statement.end_col_offset :].decode().strip()
        return not before.strip() and (not after or after.startswith("#"))

    def cut(self, first: int, last: int) -> list[Line]:
        """The lines from one number to another, both among them."""
        return list(self.lines[first - 1 : last])

    def indented(self, first: int, last: int, margin: int) -> list[Line]:
        """These lines moved to another margin; those inside of strings stay as they are."""
        own = len(self.lines[first - 1].text) - len(self.lines[first - 1].text.lstrip())
        return [
            line
            if number in self.inside_strings or not line.text.strip()
            else Line(
                " " * max(len(line.text) - len(line.text.lstrip()) + margin - own, 0) + line.text.lstrip(), line.origin
            )
            for number, line in enumerate(self.cut(first, last), start=first)
        ]

    def with_lines(self, stretches: dict[tuple[int, int], Sequence[Line]]) -> Script:
        """The script with other lines from one number to another; an empty stretch `(n, n - 1)` inserts before n."""
        made: list[Line] = []
        position = 1
        for (first, last), lines in sorted(stretches.items()):
            assert first >= position, "stretches overlap"
            made += [*self.cut(position, first - 1), *lines]
            position = last + 1
        return replace(self, lines=(*made, *self.cut(position, len(self.lines))))

    def blocks(self) -> Iterator[list[ast.stmt]]:
        """Every block of statements, the top level first."""
        for node in ast.walk(self.tree):
            for name in ("body", "orelse", "finalbody"):
                block = getattr(node, name, None)
                if isinstance(block, list) and block:
                    yield block


def own_nodes(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Everything that is run with these nodes: bodies of functions, and what comprehensions bind, left out."""
    for node in nodes:
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from own_nodes([*getattr(node, "decorator_list", []), *node.args.defaults])
        elif isinstance(node, ast.comprehension):
            yield from own_nodes([node.iter, *node.ifs])
        else:
            yield from own_nodes(ast.iter_child_nodes(node))


def bound_names(nodes: Iterable[ast.AST], above: int | None = None) -> set[str]:
    """The names that these statements bind in their own scope, or those bound above a line."""
    bound: set[str] = set()
    for node in own_nodes(nodes):
        if above is not None and getattr(node, "lineno", 0) >= above:
            continue
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                bound.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                bound.add(name)
            case ast.alias(name=name, asname=other):
                bound.add(other or name.split(".")[0])
            case ast.ExceptHandler(name=str(name)):
                bound.add(name)
            case _:
                pass
    return bound


def names_in(nodes: Iterable[ast.AST]) -> set[str]:
    """Every name that stands in these nodes, at whatever depth."""
    return {inner.id for node in nodes for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def read_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Every name that these nodes read, at whatever depth; `x += 1` reads one too."""
    inner = [each for node in nodes for each in ast.walk(node)]
    changed = {
        node.target.id for node in inner if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)
    }
    return changed | {node.id for node in inner if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def parameters_of(function: Function | ast.Lambda) -> list[str]:
    """The names of a function's parameters."""
    args = function.args
    starred = [one for one in (args.vararg, args.kwarg) if one]
    return [one.arg for one in [*args.posonlyargs, *args.args, *args.kwonlyargs, *starred]]


def free_names(definition: Function | ast.ClassDef) -> set[str]:
    """The names that a function or class reads from the file around it, rather too many than too few."""
    bound: set[str] = set()
    if not isinstance(definition, ast.ClassDef):
        bound = bound_names(definition.body) | set(parameters_of(definition))
    comprehended = {
        name.id
        for node in ast.walk(definition)
        if isinstance(node, ast.comprehension)
        for name in ast.walk(node.target)
        if isinstance(name, ast.Name)
    }
    inner = [node for node in ast.walk(definition) if isinstance(node, SCOPES) and node is not definition]
    parameters = {name for node in inner if not isinstance(node, ast.ClassDef) for name in parameters_of(node)}
    locals_inside = {name for node in inner if isinstance(node, Function) for name in bound_names(node.body)}
    return read_names([definition]) - bound - comprehended - parameters - locals_inside
