"""An open script."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator, Sequence
from dataclasses import field

from lsprotocol import types as lsp

from lintrain.model.location import Location
from lintrain.server.open_text import Disk, OpenText, TextRange, change_text
from lintrain.server.positions import Units, file_of, lsp_range, name_of, split_lines
from lintrain.source.reading import read_bytes
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

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
        if not is_json and not path.endswith(".py"):
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
        return TextRange(self.uri, lsp_range(split_lines(self.text.text), *ends, units))

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
