"""A text as a libcst tree whose nodes are found by their locations.

An edit as the change of one node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from lintrain.model.fixes import Edit
from lintrain.model.location import Location
from lintrain.startup.lazy_dataclass import dataclass

Point = tuple[int, int]
"""Line and column as libcst counts them: lines from 1, columns from 0, in characters."""

Span = tuple[Point, Point]


def span_of(location: Location) -> Span:
    """A location as libcst counts it."""
    return (location.line, location.column - 1), (location.end_line, location.end_column - 1)


@dataclass(frozen=True, slots=True)
class Tree:
    """The tree of one text; `spans` and `parents` contain every node except the module."""

    module: cst.Module
    spans: dict[cst.CSTNode, Span] = field(default_factory=dict[cst.CSTNode, Span])
    parents: dict[cst.CSTNode, cst.CSTNode] = field(default_factory=dict[cst.CSTNode, cst.CSTNode])
    by_span: dict[Span, list[cst.CSTNode]] = field(default_factory=dict[Span, "list[cst.CSTNode]"])

    def nodes_at(self, location: Location) -> Iterator[cst.CSTNode]:
        """The nodes with exactly this location, outermost first."""
        return iter(self.by_span.get(span_of(location), ()))

    def call_at(self, location: Location) -> cst.Call | None:
        """The call at a location, or None."""
        return next((node for node in self.nodes_at(location) if isinstance(node, cst.Call)), None)

    def calls_starting_at(self, location: Location) -> list[cst.Call]:
        """The calls that start where a location starts, outermost first."""
        start, _ = span_of(location)
        return [node for node, span in self.spans.items() if span[0] == start and isinstance(node, cst.Call)]

    def parenthesised_at(self, location: Location) -> cst.Tuple | cst.GeneratorExp | None:
        """The tuple or generator whose own parentheses have this location: `ast` includes them, libcst does not."""
        wanted = span_of(location)
        for node in self.spans:
            if isinstance(node, cst.Tuple | cst.GeneratorExp) and node.lpar:
                around = self.spans[node.lpar[-1]][0], self.spans[node.rpar[0]][1]
                if around == wanted:
                    return node
        return None

    def statement_holding(self, location: Location) -> cst.CSTNode:
        """The innermost statement around a location, else around its start; one of several on a line counts too."""
        start, end = span_of(location)
        around_start = [node for node in self.statements() if self.start_of(node) <= start < self.spans[node][1]]
        if not around_start:
            raise FixError(f"{location}: there is no statement at this location")
        around_all = [node for node in around_start if end <= self.spans[node][1]]
        return (around_all or around_start)[-1]

    def compound_at(self, location: Location) -> cst.BaseCompoundStatement:
        """The compound statement (for, def, with) that starts at a location, else the innermost around it."""
        start, _ = span_of(location)
        compounds = [node for node in self.spans if isinstance(node, cst.BaseCompoundStatement)]
        holding = [node for node in compounds if self.start_of(node) <= start < self.spans[node][1]]
        if not holding:
            raise FixError(f"{location}: there is no compound statement at this location")
        return next((node for node in holding if start in (self.start_of(node), self.spans[node][0])), holding[-1])

    def statements(self) -> Iterator[cst.CSTNode]:
        """Every statement that others can be inserted before, outer ones first; `elif` and `else` belong to an `if`."""
        for node in (self.module, *self.spans):
            match node:
                case cst.Module() | cst.IndentedBlock() | cst.SimpleStatementSuite():
                    yield from node.body
                case cst.SimpleStatementLine():
                    yield from node.body[1:]
                case _:
                    pass

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The ancestors of a node, innermost first, up to the function or class around it."""
        outer = self.parents.get(node)
        while outer is not None and not isinstance(outer, cst.FunctionDef | cst.ClassDef | cst.Lambda):
            yield outer
            outer = self.parents.get(outer)

    def outermost(self, node: cst.CSTNode) -> cst.CSTNode:
        """The top-level statement that contains a node, or the node itself."""
        while (outer := self.parents[node]) is not self.module:
            node = outer
        return node

    def text_at(self, location: Location, length: int) -> str:
        """The given number of characters of the text from the start of a location."""
        lines = self.module.code.splitlines(keepends=True)
        return (
            "".join(lines[location.line - 1 :])[location.column - 1 :][:length] if location.line <= len(lines) else ""
        )

    def start_of(self, node: cst.CSTNode) -> Point:
        """Where a statement starts, including its decorators."""
        if isinstance(node, cst.FunctionDef | cst.ClassDef) and node.decorators:
            return self.spans[node.decorators[0]][0]
        return self.spans[node][0]


def read_tree(text: str) -> Tree:
    """Parse a text; raises FixError if it is not Python."""
    try:
        module = cst.parse_module(text)
    except cst.ParserSyntaxError as error:
        raise FixError(f"line {error.raw_line}: not valid Python, {error.message}") from error
    if module.default_indent.strip(" \t"):  # libcst 1.8 parses such a module, but generates no code for it
        raise FixError("its lines are indented with characters other than spaces and tabs")
    wrapper = MetadataWrapper(module, unsafe_skip_copy=True)
    positions = wrapper.resolve(PositionProvider)
    tree = Tree(wrapper.module)
    stack: list[cst.CSTNode] = [wrapper.module]
    while stack:
        node = stack.pop()
        for child in reversed(node.children):
            tree.parents[child] = node
            stack.append(child)
        position = positions.get(node)
        if isinstance(position, CodeRange) and node is not wrapper.module:
            start, end = position.start, position.end
            span = tree.spans[node] = (start.line, start.column), (end.line, end.column)
            tree.by_span.setdefault(span, []).append(node)
    return tree


class FixError(Exception):
    """A fix that does not match the text: there is no such code at its location, or the result does not parse."""


Change = Callable[[cst.CSTNode], Sequence[cst.CSTNode]]
"""From a node to the nodes that replace it; none if it is removed."""


@dataclass(frozen=True, slots=True)
class Step:
    """One change of one node.

    `order` ranks the steps of a node; `span` is the code that no other step may touch; two steps with a key in common
    exclude each other.
    """

    edit: Edit
    node: cst.CSTNode
    change: Change = field(compare=False)
    order: int
    span: Span
    keys: frozenset[tuple[cst.CSTNode, str]] = frozenset()


def clash(one: Step, other: Step) -> bool:
    """Whether two steps exclude each other; the same edit twice is one edit."""
    return one.edit != other.edit and (bool(one.keys & other.keys) or _overlap(one.span, other.span))


def _overlap(one: Span, other: Span) -> bool:
    """Whether two spans overlap; an empty one is a point, which overlaps only with a span around it."""
    return one[0] < other[1] and other[0] < one[1]
