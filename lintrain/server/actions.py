"""Code actions: the quick fix of a finding, all safe fixes, a suppression comment, and the rule's page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, cast

from lsprotocol import types as lsp

from lintrain.check.fixing import can_write, fix_files
from lintrain.check.ignoring import BEYOND_COMMENTS, Comments
from lintrain.check.result import Reported
from lintrain.check.selection import CheckRequest
from lintrain.model.verdict import Outcome
from lintrain.server.checking import Checked, Urgency, request_of
from lintrain.server.editor_session import SOURCE, EditorSession
from lintrain.server.open_text import Document
from lintrain.server.positions import Units, line_edits
from lintrain.source.writing import CellsBrokenError, editable_text, file_bytes
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.text import shown

EXPLAIN = "lintrain.explain"
FIX_ALL = "source.fixAll"
EMPTY: Mapping[str, Any] = {}
FIX_ALL_OURS = "source.fixAll.lintrain"
KINDS = (lsp.CodeActionKind.QuickFix, FIX_ALL_OURS)


@dataclass(frozen=True, slots=True)
class Offer:
    """An action to offer; `number` is the index of the finding, None for all findings."""

    what: str
    title: str
    kind: str
    number: int | None = None
    preferred: bool = False


async def code_actions(session: EditorSession, given: lsp.CodeActionParams) -> list[lsp.CodeAction]:
    """The actions at a range."""
    uri = given.text_document.uri
    document = session.documents.find(uri)
    checked = await session.checked(document) if document else None
    if document is None or checked is None or not session.settings_for(document.path).enable:
        return []
    wanted = _Wanted(tuple(map(_text, given.context.only or ())))
    near = list(_near(session, checked, given))
    actions: list[lsp.CodeAction] = []
    for number, one in near:
        shown = [each for each in given.context.diagnostics if each.code == one.finding.rule]
        offers = [offer for offer in _offers(number, one) if wanted.takes(offer.kind)]
        actions += [await _action(session, document, offer, shown) for offer in offers]
        if wanted.takes(lsp.CodeActionKind.QuickFix.value):
            actions.append(_explain(one.finding.rule, shown))
    kind = wanted.fix_all(is_on=session.settings_for(document.path).fix_all)
    if kind and can_write() and any(one.fix and one.fix.safe for one in checked.file.reported):
        offer = Offer("fix-all", "lintrain: apply all safe fixes", kind)
        actions.append(await _action(session, document, offer, []))
    return [action for action in actions if action.edit or action.data or action.command]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The kinds of actions that a client asks for; none means all."""

    only: tuple[str, ...]

    def takes(self, kind: str) -> bool:
        return not self.only or any(kind == each or kind.startswith(f"{each}.") for each in self.only)

    def fix_all(self, *, is_on: bool) -> str:
        """The kind of the action for all fixes: the requested one, since some clients compare exactly."""
        if FIX_ALL_OURS in self.only:
            return FIX_ALL_OURS
        if not is_on or not self.takes(FIX_ALL_OURS):
            return ""
        return FIX_ALL if FIX_ALL in self.only else FIX_ALL_OURS


def _text(kind: object) -> str:
    return str(getattr(kind, "value", kind))


def _near(session: EditorSession, checked: Checked, given: lsp.CodeActionParams) -> Iterator[tuple[int, Reported]]:
    """The findings that touch the range, or that the client names, with their indexes.

    A client may name all diagnostics of a line while its cursor is at the start of the line.
    """
    viewer = session.viewer
    named = {(each.code, _point(each.range.start)) for each in given.context.diagnostics if each.source == SOURCE}
    for number, one in enumerate(checked.file.reported):
        at = viewer.locate(checked, one.finding.location)
        if at is None or at.uri != given.text_document.uri:
            continue
        if _touch(at.range, given.range) or (one.finding.rule, _point(at.range.start)) in named:
            yield number, one


def _touch(one: lsp.Range, other: lsp.Range) -> bool:
    return _point(one.start) <= _point(other.end) and _point(other.start) <= _point(one.end)


def _point(at: lsp.Position) -> tuple[int, int]:
    return at.line, at.character


def _offers(number: int, one: Reported) -> Iterator[Offer]:
    quick = lsp.CodeActionKind.QuickFix.value
    if one.fix and can_write():
        warning = "" if one.fix.safe else " (unsafe fix)"
        yield Offer("fix", f"lintrain: {one.fix.title}{warning}", quick, number, one.fix.safe)
    if one.finding.rule not in BEYOND_COMMENTS:
        yield Offer("ignore", f"lintrain: ignore `{one.finding.rule}` here", quick, number)


def _explain(rule: str, shown: Sequence[lsp.Diagnostic]) -> lsp.CodeAction:
    title = f"lintrain: explain `{rule}`"
    command = lsp.Command(title=title, command=EXPLAIN, arguments=[rule])
    return lsp.CodeAction(
        title=title, kind=lsp.CodeActionKind.QuickFix, diagnostics=list(shown) or None, command=command
    )


async def _action(
    session: EditorSession, document: Document, offer: Offer, shown: Sequence[lsp.Diagnostic]
) -> lsp.CodeAction:
    """The action with its edit, or with the data to compute the edit when it is chosen."""
    action = lsp.CodeAction(
        title=offer.title,
        kind=offer.kind,
        diagnostics=list(shown) or None,
        is_preferred=offer.preferred or None,
    )
    if session.client.resolves_edits:
        turn = session.turns.get(document.uri)
        action.data = {"uri": document.uri, "turn": turn, "what": offer.what, "number": offer.number}
    else:
        action.edit = await _edit(session, document, offer.what, offer.number)
    return action


async def resolved(session: EditorSession, action: lsp.CodeAction) -> lsp.CodeAction:
    """The action with its edit; without an edit if the document has changed since the offer."""
    given: object = action.data
    data = cast("Mapping[str, Any]", given) if isinstance(given, Mapping) else EMPTY
    document = session.documents.find(str(data.get("uri")))
    number: Any = data.get("number")
    if document is not None and data.get("turn") == session.turns.get(document.uri):
        action.edit = await _edit(session, document, str(data.get("what")), number if isinstance(number, int) else None)
    return action


async def _edit(session: EditorSession, document: Document, what: str, number: int | None) -> lsp.WorkspaceEdit | None:
    checked = await session.checked(document)
    if checked is None:
        return None
    reported = checked.file.reported
    match what, number:
        case "fix", int() if number < len(reported):
            work = partial(fixed, checked, reported[number])
        case "ignore", int() if number < len(reported):
            work = partial(ignored, checked, reported[number])
        case "fix-all", None:
            work = partial(all_fixed, checked, request_of(session.snapshot(document), session.projects))
        case _:
            return None
    raw = await session.worker.do(Urgency.NOW, work)
    changes = Changes(document, session.client.units, session.client.takes_versions)
    return changes.edit(raw) if raw is not None else None


REASON = "explain why this is fine"
"""The placeholder for the reason in a suppression comment."""


def fixed(checked: Checked, one: Reported) -> bytes | None:
    """The document's file with one fix applied; None if it cannot be applied."""
    from lintrain.fix import FixError, apply

    source = checked.file.source
    if source is None or one.fix is None:
        return None
    try:
        return file_bytes(source, apply(editable_text(source), [one.fix]), checked.raw)
    except (FixError, CellsBrokenError):
        return None


def ignored(checked: Checked, one: Reported) -> bytes | None:
    """The document's file with a comment that suppresses a finding; None if no line can have one.

    If a probe refuted the finding, the reason is its measurement.
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


def all_fixed(checked: Checked, request: CheckRequest) -> bytes | None:
    """The document's file with every safe fix applied; None if there is none."""
    return fix_files(request, checked.outcome, unsafe=False).contents.get(checked.path)


@dataclass(frozen=True, slots=True)
class Changes:
    """An edited file as a workspace edit, with document versions if the client supports them."""

    document: Document
    units: Units
    takes_versions: bool

    def edit(self, raw: bytes) -> lsp.WorkspaceEdit:
        """The edits that turn the open texts into those of the edited file."""
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
