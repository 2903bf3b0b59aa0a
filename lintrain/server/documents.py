"""The documents that are open."""

from __future__ import annotations

import os
from dataclasses import field

from lsprotocol import types as lsp

from lintrain.server.notebook import OpenNotebook
from lintrain.server.open_text import Document
from lintrain.server.script import Script
from lintrain.source.discovery import SUFFIXES
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(eq=False)
class OpenDocuments:
    """All that is open, by the address of the document."""

    scripts: dict[str, Script] = field(default_factory=dict[str, Script])
    notebooks: dict[str, OpenNotebook] = field(default_factory=dict[str, OpenNotebook])

    def all(self) -> list[Document]:
        """Every script and notebook."""
        return [*self.scripts.values(), *self.notebooks.values()]

    def find(self, uri: str) -> Document | None:
        """The document with this address: a script, a notebook, or the notebook of a cell."""
        if found := self.scripts.get(uri) or self.notebooks.get(uri):
            return found
        return next((each for each in self.notebooks.values() if uri in each.held), None)

    def at(self, path: str) -> Document | None:
        """The open document of a file."""
        path = os.path.abspath(path)  # noqa: PTH100 - paths are strings here
        return next((each for each in self.all() if each.path == path), None)

    def forget_disk(self, path: str) -> None:
        """A file was written: compare the open document with it again."""
        if document := self.at(path):
            document.forget_disk()


def is_ours(item: lsp.TextDocumentItem) -> bool:
    """Whether a document is Python, or a notebook."""
    return item.language_id == "python" or item.uri.endswith(SUFFIXES)
