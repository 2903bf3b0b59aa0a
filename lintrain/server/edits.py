"""What mends a finding, as edits of the texts that are open."""

from __future__ import annotations

from collections.abc import Sequence

from lsprotocol import types as lsp

from lintrain.check.fixing import fix_files
from lintrain.check.ignoring import Comments
from lintrain.check.request import Request
from lintrain.check.result import Reported
from lintrain.model.verdict import Outcome
from lintrain.server.checking import Checked
from lintrain.server.text import Units, line_edits
from lintrain.server.texts import Document
from lintrain.source.writing import CellsBrokenError, editable_text, file_bytes
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.text.shown import shown

REASON = "say why it is fine here"
"""Stands in a comment that silences a finding until the author writes a reason."""


def fixed(checked: Checked, one: Reported) -> bytes | None:
    """The document's file with one fix in it; None where it cannot be written."""
    from lintrain.fix import FixError, apply

    source = checked.file.source
    if source is None or one.fix is None:
        return None
    try:
        return file_bytes(source, apply(editable_text(source), [one.fix]), checked.raw)
    except (FixError, CellsBrokenError):
        return None


def ignored(checked: Checked, one: Reported) -> bytes | None:
    """The document's file with a comment that silences a finding; None where no line can hold it.

    The reason is what a probe measured, where it refuted the finding.
    """
    source = checked.file.source
    if source is None:
        return None
    refuted = one.verdict is not None and one.verdict.outcome is Outcome.REFUTED
    comments = Comments(
        source, shown(f"refuted by a probe: {one.verdict.reason}") if refuted and one.verdict else REASON
    )
    try:
        return comments.written(checked.raw) if comments.silence(one.finding) else None
    except CellsBrokenError:
        return None


def all_fixed(checked: Checked, request: Request) -> bytes | None:
    """The document's file with every safe fix; None where there is nothing to write."""
    return fix_files(request, checked.outcome, unsafe=False).contents.get(checked.path)


@dataclass(frozen=True, slots=True)
class Changes:
    """An edited file as the client takes edits: with the version that they are for, where it understands that."""

    document: Document
    units: Units
    takes_versions: bool

    def edit(self, raw: bytes) -> lsp.WorkspaceEdit:
        """The edits that turn the open texts into those of the file."""
        changed = [
            (text, line_edits(text.text, after, self.units, text.newline))
            for text, after in self.document.new_texts(raw)
        ]
        if not self.takes_versions:
            return lsp.WorkspaceEdit(changes={text.uri: edits for text, edits in changed})
        return lsp.WorkspaceEdit(
            document_changes=[_versioned(text.uri, text.version, edits) for text, edits in changed]
        )


def _versioned(uri: str, version: int, edits: Sequence[lsp.TextEdit]) -> lsp.TextDocumentEdit:
    at = lsp.OptionalVersionedTextDocumentIdentifier(uri=uri, version=version)
    return lsp.TextDocumentEdit(text_document=at, edits=list(edits))
