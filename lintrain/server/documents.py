"""The open documents: scripts, and notebooks, whose cells are separate texts."""

from __future__ import annotations

import codecs
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import field

from lsprotocol import types as lsp

from lintrain.model.location import Location
from lintrain.server.open_text import Disk, Document, OpenText, TextRange, change_text
from lintrain.server.positions import Units, file_of, lsp_range, name_of, split_lines
from lintrain.source.discovery import CONFIGURED, SUFFIXES
from lintrain.source.reading import UnreadableError, read_bytes
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

START = lsp.Position(line=0, character=0)


@dataclass(eq=False)
class OpenNotebook:
    """A notebook: its cells in order, each with its own text."""

    uri: str
    path: str
    version: int
    cells: list[lsp.NotebookCell]
    held: dict[str, OpenText]
    disk: Disk = field(init=False)
    _raw: bytes | None = None

    def __post_init__(self) -> None:
        self.disk = Disk(self.path)

    @classmethod
    def opened(cls, given: lsp.DidOpenNotebookDocumentParams, home: str) -> OpenNotebook:
        """The notebook that a client opens."""
        item = given.notebook_document
        path = file_of(item.uri) or os.path.join(home, name_of(item.uri))  # noqa: PTH118 - as above
        path = path if path.endswith(NOTEBOOK_SUFFIX) else path + NOTEBOOK_SUFFIX
        held = {each.uri: OpenText(each.uri, each.version, each.text) for each in given.cell_text_documents}
        return cls(item.uri, path, item.version, list(item.cells), held)

    @property
    def raw(self) -> bytes:
        """The bytes of the file if its cells equal the open ones, else a notebook made of the open cells."""
        if self._raw is None:
            made = self._made()
            try:
                same = self.disk.if_same(read_bytes(self.path, made).text)
            except UnreadableError:
                same = None
            self._raw = same or made
        return self._raw

    def _made(self) -> bytes:
        cells = [self._cell(cell, self._code(cell)) for cell in self.cells]
        return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}).encode()

    def _cell(self, cell: lsp.NotebookCell, code: str) -> dict[str, object]:
        """A cell as JSON, with all keys that ruff requires."""
        if cell.kind != lsp.NotebookCellKind.Code:
            return {"cell_type": "markdown", "metadata": {}, "source": code}
        return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": code}

    def _code(self, cell: lsp.NotebookCell) -> str:
        text = self.held.get(cell.document)
        return "\n".join(split_lines(text.text)) if text else ""

    @property
    def is_saved(self) -> bool:
        """Whether the file on disk equals the document."""
        self.forget_disk()
        return self.disk.holds(self.raw)

    @property
    def texts(self) -> Sequence[OpenText]:
        """The texts of the cells."""
        return [self.held[cell.document] for cell in self.cells if cell.document in self.held]

    def locate(self, source: Source | None, location: Location, units: Units) -> TextRange:
        """The cell, and the range in it."""
        at = source.locate(location) if source else None
        cell = self.cells[at.cell - 1] if at and at.cell and at.cell <= len(self.cells) else None
        text = self.held.get(cell.document) if cell else None
        if at is None or text is None:
            first = self.cells[0].document if self.cells else self.uri
            return TextRange(first, lsp.Range(start=START, end=START))
        end = (at.line + location.end_line - location.line, location.end_column)
        return TextRange(text.uri, lsp_range(text.lines, (at.line, at.column), end, units))

    def new_texts(self, raw: bytes) -> Iterator[tuple[OpenText, str]]:
        """The cells that differ in the edited notebook, with their new code; cells keep their order."""
        cells = json.loads(raw)["cells"]
        for cell, after in zip(self.cells, cells, strict=True):
            code = "".join(after["source"])
            if cell.document in self.held and code != self._code(cell):
                yield self.held[cell.document], code

    def line_of(self, source: Source, uri: str, position: lsp.Position) -> int | None:
        """The line of the joined cells."""
        number = next((index for index, cell in enumerate(self.cells, 1) if cell.document == uri), 0)
        cells = source.notebook.cells if source.notebook else ()
        return next((cell.first_line + position.line for cell in cells if cell.number == number), None)

    def change(self, given: lsp.NotebookDocumentChangeEvent, version: int, units: Units) -> None:
        """Apply edits of the client: cells that are added, removed or moved, and their text."""
        self.version, self._raw = version, None
        if given.cells is None:
            return
        if structure := given.cells.structure:
            start = max(0, structure.array.start)
            self.cells[start : start + structure.array.delete_count] = structure.array.cells or []
            for closed in structure.did_close or ():
                self.held.pop(closed.uri, None)
            self.held.update(
                {each.uri: OpenText(each.uri, each.version, each.text) for each in structure.did_open or ()}
            )
        kinds = {cell.document: cell for cell in given.cells.data or ()}
        self.cells = [kinds.get(cell.document, cell) for cell in self.cells]
        for each in given.cells.text_content or ():
            if text := self.held.get(each.document.uri):
                change_text(text, each.changes, each.document.version, units)

    def forget_disk(self) -> None:
        """Compare with the disk again."""
        self.disk.forget()
        self._raw = None


NOTEBOOK_SUFFIX = ".ipynb"


@dataclass(eq=False)
class Script:
    """A text document."""

    text: OpenText
    path: str
    disk: Disk = field(init=False)
    _raw: tuple[str, bytes] | None = None

    def __post_init__(self) -> None:
        self.disk = Disk(self.path)

    @classmethod
    def opened(cls, item: lsp.TextDocumentItem, home: str) -> Script:
        """The document that a client opens; one without a file is treated as a file in the folder `home`."""
        path = file_of(item.uri) or os.path.join(home, name_of(item.uri))  # noqa: PTH118 - paths are strings here
        is_json = path.endswith(NOTEBOOK_SUFFIX) and item.text.lstrip()[:1] in ("", "{")
        if not is_json and not path.endswith((".py", *CONFIGURED)):
            path += ".py"  # Python under another name, or the cells of a notebook as one text
        return cls(OpenText(item.uri, item.version, item.text), path)

    @property
    def uri(self) -> str:
        """Its URI."""
        return self.text.uri

    @property
    def version(self) -> int:
        """The version that the client counts."""
        return self.text.version

    @property
    def raw(self) -> bytes:
        """The bytes of the file if it has the same text, else the text in UTF-8."""
        text = self.text.text
        if self._raw is None or self._raw[0] is not text:
            self._raw = text, self.disk.if_same(text.replace("\r\n", "\n").replace("\r", "\n")) or _encoded(text)
        return self._raw[1]

    @property
    def is_saved(self) -> bool:
        """Whether the file on disk equals the document."""
        self.forget_disk()
        return self.disk.holds(self.raw)

    @property
    def texts(self) -> Sequence[OpenText]:
        """The one text."""
        return (self.text,)

    def locate(self, source: Source | None, location: Location, units: Units) -> TextRange:
        """The range; for a notebook that is open as JSON, the range in the JSON."""
        at = source.location_in_file(location) if source else location
        ends = (at.line, at.column), (at.end_line, at.end_column)
        return TextRange(self.uri, lsp_range(self.text.lines, *ends, units))

    def new_texts(self, raw: bytes) -> Iterator[tuple[OpenText, str]]:
        """The text that the edited file holds."""
        after = raw.decode(errors="replace") if self.path.endswith(NOTEBOOK_SUFFIX) else read_bytes(self.path, raw).text
        yield self.text, after.replace("\r\n", "\n")

    def line_of(self, source: Source, uri: str, position: lsp.Position) -> int | None:
        """The same line."""
        return position.line + 1 if uri == self.uri and source.notebook is None else None

    def change(self, changes: Sequence[lsp.TextDocumentContentChangeEvent], version: int, units: Units) -> None:
        """Apply edits of the client."""
        change_text(self.text, changes, version, units)

    def forget_disk(self) -> None:
        """Compare with the disk again."""
        self.disk.forget()
        self._raw = None


def _encoded(text: str) -> bytes:
    """A text as UTF-8 with a byte order mark, whatever encoding it declares."""
    raw = text.encode(errors="replace")
    return raw if raw.isascii() or raw.startswith(codecs.BOM_UTF8) else codecs.BOM_UTF8 + raw


@dataclass(eq=False)
class OpenDocuments:
    """The open scripts and notebooks by URI."""

    scripts: dict[str, Script] = field(default_factory=dict[str, Script])
    notebooks: dict[str, OpenNotebook] = field(default_factory=dict[str, OpenNotebook])

    def all(self) -> list[Document]:
        """Every script and notebook."""
        return [*self.scripts.values(), *self.notebooks.values()]

    def find(self, uri: str) -> Document | None:
        """The document with a URI: a script, a notebook, or the notebook of a cell."""
        if found := self.scripts.get(uri) or self.notebooks.get(uri):
            return found
        return next((each for each in self.notebooks.values() if uri in each.held), None)

    def at(self, path: str) -> Document | None:
        """The open document of a file."""
        path = os.path.abspath(path)  # noqa: PTH100 - paths are strings here
        return next((each for each in self.all() if each.path == path), None)

    def forget_disk(self, path: str) -> None:
        """Compare the open document with its file again, which was written."""
        if document := self.at(path):
            document.forget_disk()


def is_ours(item: lsp.TextDocumentItem) -> bool:
    """Whether a document is Python or a notebook, or may be a training configuration."""
    return item.language_id == "python" or item.uri.endswith((*SUFFIXES, *CONFIGURED))
