"""One script, notebook or buffer as the interpreter reads it.

A location as people and editors write it.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, TypeVar, cast, overload

from lintrain.model.location import Location
from lintrain.source.latest_tree import is_found_in, tree_of, words_in
from lintrain.source.newer_grammar import NewerGrammarError
from lintrain.source.nodes import ASKED, AT, named, walk
from lintrain.source.pasted import is_pasted
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern
from lintrain.text import shown

if TYPE_CHECKING:
    from lintrain.source.magics import CellLocation, Notebook
    from lintrain.source.notebook import WrittenSource
    from lintrain.source.repair import Repaired
    from lintrain.source.suppression import Suppression


Node = TypeVar("Node", bound=ast.AST)
OtherNode = TypeVar("OtherNode", bound=ast.AST)
Answer = TypeVar("Answer")

MIXED = "mixed"

MARK = "lintrain:"
"""Every suppression comment contains it."""

LARGEST_CODE = 2 * 1024 * 1024
"""Characters of code that are parsed: as dense as code can be they take two seconds and a gigabyte."""

TEST_FILE = lazy_pattern(r"(^|[/\\])(test_\w+|\w+_test|conftest)\.py$")
TESTS = lazy_pattern(
    r"^[ \t]*+(import|from) (pytest|unittest)\b|^[ \t]++def test_(?!step|data|epoch|loader|end)\w+\(self\b",
    re.MULTILINE,
)
"""What only unit tests contain: a `test_net.py` may also be a script that evaluates, `test_step` is Lightning's."""

TEST_CASE = lazy_pattern(r"^class \w+\((?:unittest\.)?TestCase\)", re.MULTILINE)
"""A class of tests, which makes a file of any name in a folder of tests one that holds unit tests."""

FOLDER_OF_TESTS = lazy_pattern(r"(^|[/\\])tests[/\\]")
PLAIN_TEST = lazy_pattern(r"^def test_\w+\(\)(?=.*^[ \t]+assert\b)", re.MULTILINE | re.DOTALL)
"""A test that needs nothing of pytest; a function `test_model()` outside of `tests/` may evaluate."""


@dataclass(frozen=True, slots=True)
class Writing:
    """How a text is written in its file: the encoding, a byte order mark, and the end of its lines (or `mixed`)."""

    encoding: str = "utf-8"
    marked: bool = False
    newline: str = "\n"


LONG, MOST_LONG = 40, 2
"""From how many lines on the code at a location is cached, and for how many locations."""


@dataclass(eq=False)
class Source:
    """One file's code under the name that the user knows it by; raises SyntaxError from `tree` where it does not parse.

    Lines end with a line feed only; of a notebook, `text` holds the code cells with their magics masked.
    """

    path: str
    text: str
    notebook: Notebook | None = None
    writing: Writing = Writing()
    answers: dict[object, object] = field(init=False, default_factory=dict[object, object])
    """Answers about the whole file, by question."""
    asked: dict[object, object] | None = field(init=False, default=None)
    """Where the questions about the whole file are noted with their answers, while code is read that may be kept."""

    def __reduce__(self) -> tuple[type[Source], tuple[object, ...]]:
        """What is sent to another process: the text, and nothing that can be derived from it."""
        return Source, (self.path, self.text, self.notebook, self.writing)

    @cached_property
    def lines(self) -> list[str]:
        """The lines of the text, without their ends."""
        return self.text.split("\n")

    @property
    def is_too_large(self) -> bool:
        """Whether its code is too large: a tree of it would fill the memory."""
        return len(self.text) > LARGEST_CODE

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree of the code, repaired where it does not parse as it is."""
        return self._read.tree

    @cached_property
    def _read(self) -> Repaired:
        from lintrain.source.repair import Repaired, repair

        try:
            return Repaired(tree_of(self.path, self.text), is_repaired=False)
        except NewerGrammarError:
            raise
        except SyntaxError:
            if (found := repair(self.text, self.notebook.cells if self.notebook else ())) is None:
                raise
            return found

    @property
    def is_repaired(self) -> bool:
        """Whether the text does not parse as it is."""
        return self._read.is_repaired

    @property
    def flaws(self) -> Sequence[SyntaxError]:
        """What Python says about the parts of the text that were left out of the tree, or repaired."""
        return self._read.flaws

    @cached_property
    def is_partial(self) -> bool:
        """Whether it is a piece of a script, or a notebook without its broken cells: the rest is elsewhere."""
        return is_pasted(self.text) or self._read.is_partial

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All nodes of the tree, outer ones first: walked once for all rules."""
        return tuple(walk(self.tree))

    @cached_property
    def _by_kind(self) -> dict[tuple[type[ast.AST], ...], list[ast.AST]]:
        """The nodes of the kinds that were requested."""
        return {}

    @cached_property
    def _indices(self) -> dict[type[ast.AST], list[int]]:
        """Where the nodes of each kind are among all nodes."""
        kinds = defaultdict[type[ast.AST], list[int]](list)
        for index, node in enumerate(self.nodes):
            kinds[node.__class__].append(index)
        return kinds

    @overload
    def nodes_of(self, kind: type[Node], /) -> Sequence[Node]: ...

    @overload
    def nodes_of(self, kind: type[Node], other: type[OtherNode], /) -> Sequence[Node | OtherNode]: ...

    @overload
    def nodes_of(self, *kinds: type[Node]) -> Sequence[Node]: ...

    def nodes_of(self, *kinds: type[ast.AST]) -> Sequence[ast.AST]:
        """The nodes of these kinds, each of them a class that the parser makes nodes of, outer ones first."""
        if kinds not in self._by_kind:
            indices = self._indices
            found = chain.from_iterable(indices.get(kind, ()) for kind in kinds)
            in_order = found if len(kinds) == 1 else sorted(found)
            self._by_kind[kinds] = [self.nodes[index] for index in in_order]
        return self._by_kind[kinds]

    def contains(self, pattern: str | re.Pattern[str]) -> bool:
        """Whether a regular expression finds something in the text."""
        if pattern not in self.answers:
            self.answers[pattern] = is_found_in(self.path, self.text, pattern)
        if self.asked is not None:
            self.asked[pattern] = self.answers[pattern]
        return self.answers[pattern] is True

    def cached(self, question: Callable[[Source], Answer]) -> Answer:
        """The answer to a question about the whole file, computed once while its tree is kept."""
        if question not in self.answers:
            self.answers[question] = question(self)
        if self.asked is not None:
            self.asked[question] = self.answers[question]
        return self.answers[question]  # type: ignore[return-value] # the answer that was stored for this question

    def asked_again(self, question: object) -> object:
        """The answer to a question about the whole file that was noted in `asked`, for another text."""
        return self.cached(question) if callable(question) else self.contains(cast("str | re.Pattern[str]", question))

    def once(self, question: Callable[[Node], Answer], node: Node) -> Answer:
        """The answer to a question about the syntax of a node and what is below it, computed once while it is kept."""
        answers: dict[object, Answer] = node.__dict__.setdefault(ASKED, {})
        if question not in answers:
            answers[question] = question(node)
        return answers[question]

    def gathered(self, question: Callable[[ast.stmt], Sequence[Answer]]) -> list[Answer]:
        """What a question finds in each statement outside of functions and blocks, in the order of the code.

        It depends on the syntax of that statement alone, so that an edit of another one does not ask again.
        """
        return [found for statement in self.tree.body for found in self.once(question, statement)]

    def named(self, *words: str) -> list[ast.Name | ast.Attribute]:
        """The names and attributes that are called so, statement by statement."""
        below = [named(statement) for statement in self.tree.body]
        return [node for names in below for word in words if word in names for node in names[word]]

    def named_in(self, scope: ast.AST, word: str) -> Sequence[ast.Name | ast.Attribute]:
        """The same in a function, or in the whole file."""
        return self.named(word) if scope is self.tree else named(scope).get(word, ())

    def forget_tree(self) -> None:
        """Free everything that is derived from the text; it is computed again on request."""
        for made in ("tree", "_read", "nodes", "_by_kind", "_indices", "lines"):
            self.__dict__.pop(made, None)
        self.answers.clear()

    def without_tree(self) -> Source:
        """The same source with nothing derived from its text: to be stored while others may still use the tree."""
        return Source(self.path, self.text, self.notebook, self.writing)

    @cached_property
    def holds_unit_tests(self) -> bool:
        """Whether its name and its text show that it contains unit tests, for pytest or unittest."""
        is_in_folder = FOLDER_OF_TESTS.search(self.path) is not None
        if TEST_FILE.search(self.path) is None:
            return is_in_folder and TEST_CASE.search(self.text) is not None
        is_plain = is_in_folder and PLAIN_TEST.search(self.text) is not None
        return is_plain or TESTS.search(self.text) is not None

    @cached_property
    def suppressions(self) -> tuple[Suppression, ...]:
        """The suppression comments."""
        if MARK not in self.text:
            return ()
        from lintrain.source.suppression import find_suppressions

        return find_suppressions(self.path, self.text, self.lines)

    def location(self, node: ast.expr | ast.stmt | ast.keyword | ast.arg | ast.alias | ast.ExceptHandler) -> Location:
        """The location of a node; the parser counts UTF-8 bytes, a location counts characters."""
        known: Location | None = node.__dict__.get(AT)
        if known is None:
            known = node.__dict__[AT] = self._location(node)
        return known

    @cached_property
    def _is_ascii(self) -> bool:
        return self.text.isascii()

    def _location(self, node: ast.expr | ast.stmt | ast.keyword | ast.arg | ast.alias | ast.ExceptHandler) -> Location:
        end_line = node.end_lineno or node.lineno
        end_column = node.end_col_offset if node.end_col_offset is not None else node.col_offset
        if self._is_ascii:
            return Location(self.path, node.lineno, node.col_offset + 1, end_line, end_column + 1)
        return Location(
            self.path,
            node.lineno,
            self._character(node.lineno, node.col_offset) + 1,
            end_line,
            self._character(end_line, end_column) + 1,
        )

    def code(self, location: Location) -> str:
        """The code at a location."""
        if location.line == location.end_line:
            return self.lines[location.line - 1][location.column - 1 : location.end_column - 1]
        if location.end_line - location.line < LONG:
            return self._joined(location)
        if location not in self._long_codes:
            if len(self._long_codes) == MOST_LONG:
                self._long_codes.clear()
            self._long_codes[location] = self._joined(location)
        return self._long_codes[location]

    @cached_property
    def _long_codes(self) -> dict[Location, str]:
        """The code at the last few long locations: that of a loop is requested for each statement in it."""
        return {}

    def _joined(self, location: Location) -> str:
        first = self.lines[location.line - 1][location.column - 1 :]
        last = self.lines[location.end_line - 1][: location.end_column - 1]
        return "\n".join([first, *self.lines[location.line : location.end_line - 1], last])

    def shown_line(self, line: int) -> str:
        """A line as its author wrote it; empty if the text does not have it."""
        if self.notebook and line in self.notebook.masked:
            return self.notebook.masked[line]
        return self.lines[line - 1] if 0 < line <= len(self.lines) else ""

    def locate(self, location: Location) -> CellLocation:
        """The location as people see it: cell and line of a notebook, and the line of the file itself."""
        from lintrain.source.magics import CellLocation

        cell = self.notebook.cell_at(location.line) if self.notebook else None
        if cell is None:
            return CellLocation(None, location.line, location.column, location.line)
        return CellLocation(
            cell.number, location.line - cell.first_line + 1, location.column, self._file_line(location.line)
        )

    @property
    def file_text(self) -> str:
        """The text of the file itself, its lines ended by a line feed: of a notebook its JSON."""
        return self.notebook.json if self.notebook else self.text

    def location_in_file(self, location: Location) -> Location:
        """The location in the file itself, which for a notebook is its JSON."""
        if self.notebook is None:
            return location
        start = self._point_in_file(location.line, location.column)
        return Location(location.path, *start, *self._point_in_file(location.end_line, location.end_column))

    def _point_in_file(self, line: int, column: int) -> tuple[int, int]:
        from lintrain.source.notebook import point_in_json

        return point_in_json(self.notebook, self._written, line, column) if self.notebook else (line, column)

    @cached_property
    def _written(self) -> dict[int, WrittenSource]:
        from lintrain.source.notebook import written_sources

        sources = written_sources(self.notebook.json) if self.notebook else ()
        return {written.number: written for written in sources}

    def is_displayed(self, location: Location) -> bool:
        """Whether the value at a location is the displayed result of its notebook cell."""
        return (location.line, location.column, location.end_line, location.end_column) in self._displayed

    def _statements_of_cells(self) -> Iterator[ast.stmt]:
        """The statements of the file, those of a cell that starts indented without the `if` that stands above it."""
        from lintrain.source.magics import INDENTED, MARKER

        for statement in self.tree.body:
            is_ours = isinstance(statement, ast.If) and self.lines[statement.lineno - 1].startswith(INDENTED + MARKER)
            yield from statement.body if is_ours and isinstance(statement, ast.If) else [statement]

    @cached_property
    def _displayed(self) -> set[tuple[int, int, int, int]]:
        last_in_cell: dict[int, ast.stmt] = {}
        cells = self.notebook.cells if self.notebook else ()
        for statement in self._statements_of_cells():
            cell = next((cell for cell in cells if cell.first_line <= statement.lineno <= cell.last_line), None)
            if cell:
                last_in_cell[cell.number] = statement
        locations = [self.location(statement) for statement in last_in_cell.values() if isinstance(statement, ast.Expr)]
        return {
            (location.line, location.column, location.end_line, location.end_column)
            for location in locations
            if not self.lines[location.end_line - 1][location.end_column - 1 :].lstrip().startswith(";")
        }

    def _file_line(self, line: int) -> int:
        from lintrain.source.notebook import line_in_json

        return line_in_json(self.notebook, self._written, line) if self.notebook else line

    def _character(self, line: int, byte: int) -> int:
        text = self.lines[line - 1]
        return byte if text.isascii() else len(text.encode()[:byte].decode(errors="replace"))


def whole_text(source: Source) -> str:
    """The text of a file, for code that reads a script: asked for by way of `cached`, which notes it."""
    return source.text


def words(source: Source) -> frozenset[str]:
    """The words of a text, each once; asked for by way of `cached`."""
    return words_in(source.path, source.text)


FindSource = Callable[[str], Source | None]


def location_of(location: Location, find_source: FindSource) -> str:
    """A location as people and editors write it: `path:line:column`, in a notebook `path:cell 2:line:column`."""
    source = find_source(location.path)
    if source is None:
        return shown(str(location))
    at = source.locate(location)
    cell = f"cell {at.cell}:" if at.cell is not None else ""
    return f"{shown(location.path)}:{cell}{at.line}:{at.column}"


def line_of(location: Location, find_source: FindSource) -> str:
    """The line of a location: `path:line`, in a notebook `path:cell 2:line`."""
    where = location_of(location, find_source)
    return where.rpartition(":")[0] or where
