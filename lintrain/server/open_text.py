"""What a document in an editor is: one text, or several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from lsprotocol import types as lsp

from lintrain.model.location import Location
from lintrain.server.positions import Units, changed
from lintrain.source.reading import UnreadableError, load_bytes, read_bytes
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class TextRange:
    """A stretch of one open text: of a document, or of one cell of a notebook."""

    uri: str
    range: lsp.Range


@dataclass(eq=False)
class OpenText:
    """A text under its address: a script, or a cell."""

    uri: str
    version: int
    text: str

    @property
    def newline(self) -> str:
        """How its lines end, judged by the first."""
        end = self.text.find("\n")
        if end < 0:
            return "\r" if "\r" in self.text else "\n"
        return "\r\n" if end > 0 and self.text[end - 1] == "\r" else "\n"


class Document(Protocol):
    """What is checked as one: a script or a notebook. `path` is the file that it is, or stands for."""

    path: str

    @property
    def uri(self) -> str:
        """Its address."""
        ...

    @property
    def version(self) -> int:
        """The client's count of its changes."""
        ...

    @property
    def raw(self) -> bytes:
        """The bytes that its file would have."""
        ...

    @property
    def is_saved(self) -> bool:
        """Whether its file on the disk says the same."""
        ...

    @property
    def texts(self) -> Sequence[OpenText]:
        """The texts that it is made of, in order."""
        ...

    def locate(self, source: Source | None, location: Location, units: Units) -> TextRange:
        """Where a place of what was read is in the editor; of what could not be read, where it is in the file."""
        ...

    def new_texts(self, raw: bytes) -> Iterator[tuple[OpenText, str]]:
        """Those texts that an edited file changes, with their new content (lines end with a line feed)."""
        ...

    def line_of(self, source: Source, uri: str, position: lsp.Position) -> int | None:
        """The line (from 1) of what was read for a position in one of the texts."""
        ...

    def forget_disk(self) -> None:
        """The file was written: compare with it again."""
        ...


def change_text(
    text: OpenText, changes: Sequence[lsp.TextDocumentContentChangeEvent], version: int, units: Units
) -> None:
    """Take in the edits that a client made in a text."""
    for each in changes:
        where = each.range if isinstance(each, lsp.TextDocumentContentChangePartial) else None
        text.text = changed(text.text, where, each.text, units)
    text.version = version


@dataclass(eq=False)
class Disk:
    """What the disk has of an open document: read when it is opened, saved, or changed by somebody else."""

    path: str
    _held: tuple[bytes, str] | None = None
    _is_read: bool = False

    def if_same(self, text: str) -> bytes | None:
        """The bytes of the file where they hold just this code."""
        if not self._is_read:
            self._held, self._is_read = _read_disk(self.path), True
        return self._held[0] if self._held and self._held[1] == text else None

    def holds(self, raw: bytes) -> bool:
        """Whether the file has these bytes."""
        return self._held is not None and self._held[0] == raw

    def forget(self) -> None:
        """Read it again when it is asked for."""
        self._is_read = False


def _read_disk(path: str) -> tuple[bytes, str] | None:
    try:
        raw = load_bytes(path)
        return raw, read_bytes(path, raw).text
    except (UnreadableError, ValueError):
        return None
