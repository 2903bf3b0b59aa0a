"""Open documents: one text or several, and the file on disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from lsprotocol import types as lsp

from lintrain.model.location import Location
from lintrain.server.positions import Units, changed, split_lines
from lintrain.source.reading import UnreadableError, load_bytes, read_bytes
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class TextRange:
    """A range of an open text: a document or a cell of a notebook."""

    uri: str
    range: lsp.Range


@dataclass(eq=False)
class OpenText:
    """An open text with its URI: a script or a cell."""

    uri: str
    version: int
    text: str
    _split: tuple[str, list[str]] | None = None

    @property
    def lines(self) -> list[str]:
        """The lines without their ends, split once for all findings in the text."""
        if self._split is None or self._split[0] is not self.text:
            self._split = self.text, split_lines(self.text)
        return self._split[1]

    @property
    def newline(self) -> str:
        """The line end, taken from the first line."""
        end = self.text.find("\n")
        if end < 0:
            return "\r" if "\r" in self.text else "\n"
        return "\r\n" if end > 0 and self.text[end - 1] == "\r" else "\n"


class Document(Protocol):
    """A script or a notebook; `path` is its file, or the path that an unsaved document gets."""

    path: str
    disk: Disk

    @property
    def uri(self) -> str:
        """Its URI."""
        ...

    @property
    def version(self) -> int:
        """The version that the client counts."""
        ...

    @property
    def raw(self) -> bytes:
        """The bytes of the document as a file."""
        ...

    @property
    def is_saved(self) -> bool:
        """Whether the file on disk equals the document."""
        ...

    @property
    def texts(self) -> Sequence[OpenText]:
        """The texts of the document, in order."""
        ...

    def locate(self, source: Source | None, location: Location, units: Units) -> TextRange:
        """The range in the editor of a location in the source, or in the file if there is no source."""
        ...

    def new_texts(self, raw: bytes) -> Iterator[tuple[OpenText, str]]:
        """The texts that differ in an edited file, with their new content (with line feeds as line ends)."""
        ...

    def line_of(self, source: Source, uri: str, position: lsp.Position) -> int | None:
        """The line (from 1) of the source for a position in one of the texts."""
        ...

    def forget_disk(self) -> None:
        """Compare with the file again, which was written."""
        ...


def change_text(
    text: OpenText, changes: Sequence[lsp.TextDocumentContentChangeEvent], version: int, units: Units
) -> None:
    """Apply the edits of a client to a text."""
    for each in changes:
        where = each.range if isinstance(each, lsp.TextDocumentContentChangePartial) else None
        text.text = changed(text.text, where, each.text, units)
    text.version = version


@dataclass(eq=False)
class Disk:
    """The file of an open document on disk, read when the document is opened, saved or changed on disk."""

    path: str
    _held: tuple[bytes, str] | None = None
    _is_read: bool = False

    def if_same(self, text: str) -> bytes | None:
        """The bytes of the file if they contain exactly this code."""
        if not self._is_read:
            self._held, self._is_read = _read_disk(self.path), True
        return self._held[0] if self._held and self._held[1] == text else None

    def holds(self, raw: bytes) -> bool:
        """Whether the file has these bytes."""
        return self._held is not None and self._held[0] == raw

    def forget(self) -> None:
        """Read the file again when it is needed."""
        self._is_read = False


def _read_disk(path: str) -> tuple[bytes, str] | None:
    try:
        raw = load_bytes(path)
        return raw, read_bytes(path, raw).text
    except (UnreadableError, ValueError):
        return None
