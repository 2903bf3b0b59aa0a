"""Hovers: over a finding what the last probe said of it and its rule's page, over a comment of ours that page.

The finding's own words are not among them: editors show the diagnostic in the same window.
"""

from __future__ import annotations

from collections.abc import Iterator

from lsprotocol import types as lsp

from lintrain.check.result import Reported
from lintrain.report.markdown import brief_markdown, escaped_markdown
from lintrain.server.pages import page_of
from lintrain.server.session import Session
from lintrain.server.text import split_lines
from lintrain.source.source import MARK
from lintrain.startup.lazy_pattern import lazy_pattern

RULE_NAME = lazy_pattern(r"[a-z0-9]+(?:-[a-z0-9]+)*")


async def hover(session: Session, given: lsp.HoverParams) -> lsp.Hover | None:
    """What is known at a place."""
    uri, at = given.text_document.uri, given.position
    document = session.documents.find(uri)
    checked = await session.checked(document) if document else None
    if document is None or checked is None:
        return None
    viewer = session.viewer
    texts: list[str] = []
    where: lsp.Range | None = None
    for source, reported in session.about(document.path):
        for one in reported:
            location = viewer.locate(source, one.finding.location)
            if location and location.uri == uri and _holds(location.range, at):
                texts += _of_finding(one)
                where = where or location.range
    if named := _named(session, uri, at):
        texts.append(named)
    if not texts:
        return None
    kind = lsp.MarkupKind.Markdown if session.client.reads_markdown else lsp.MarkupKind.PlainText
    return lsp.Hover(contents=lsp.MarkupContent(kind=kind, value="\n\n---\n\n".join(dict.fromkeys(texts))), range=where)


def _of_finding(one: Reported) -> Iterator[str]:
    """The last verdict, and the page."""
    if one.verdict:
        yield f"**{one.verdict.outcome.value}** by the last probe: {escaped_markdown(one.verdict.reason)}"
    if page := page_of(one.finding.rule):
        yield brief_markdown(page)


def _holds(location: lsp.Range, at: lsp.Position) -> bool:
    here = (at.line, at.character)
    return (location.start.line, location.start.character) <= here <= (location.end.line, location.end.character)


def _named(session: Session, uri: str, at: lsp.Position) -> str | None:
    """The page of the rule whose name stands there, in a comment of ours."""
    document = session.documents.find(uri)
    text = next((text for text in document.texts if text.uri == uri), None) if document else None
    lines = split_lines(text.text) if text else []
    if not 0 <= at.line < len(lines) or MARK not in lines[at.line]:
        return None
    column = session.client.units.characters(lines[at.line], at.character)
    word = next((each[0] for each in RULE_NAME.finditer(lines[at.line]) if each.start() <= column <= each.end()), "")
    page = page_of(word)
    return brief_markdown(page) if page else None
