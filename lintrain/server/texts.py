"""What a document in an editor is: one text, or several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from lsprotocol import types as lsp

from lintrain.model.location import Location
from lintrain.server.text import Units, changed
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of one open text: of a document, or of one cell of a notebook."""

    uri: str
    range: lsp.Range


@dataclass(eq=False)
class Text:
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
    def texts(self) -> Sequence[Text]:
        """The texts that it is made of, in order."""
        ...

    def locate(self, source: Source | None, location: Location, units: Units) -> Stretch:
        """Where a place of what was read is in the editor; of what could not be read, where it is in the file."""
        ...

    def new_texts(self, raw: bytes) -> Iterator[tuple[Text, str]]:
        """Those texts that an edited file changes, with their new content (lines end with a line feed)."""
        ...

    def line_of(self, source: Source, uri: str, position: lsp.Position) -> int | None:
        """The line (from 1) of what was read for a position in one of the texts."""
        ...

    def forget_disk(self) -> None:
        """The file was written: compare with it again."""
        ...


def change_text(text: Text, changes: Sequence[lsp.TextDocumentContentChangeEvent], version: int, units: Units) -> None:
    """Take in the edits that a client made in a text."""
    for each in changes:
        where = each.range if isinstance(each, lsp.TextDocumentContentChangePartial) else None
        text.text = changed(text.text, where, each.text, units)
    text.version = version
