"""Hovers: over a finding what the last probe said of it and its rule's page, over a comment of ours that page.

The finding's own words are not among them: editors show the diagnostic in the same window.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache

from lsprotocol import types as lsp

from lintrain.cache.folder import is_ours, store_folder
from lintrain.cache.whole_files import HEADS, make_folder, put
from lintrain.check.result import Reported
from lintrain.report.markdown import brief_markdown, escaped_markdown
from lintrain.report.text.pages import Page, pages
from lintrain.rulebook import load_rules
from lintrain.server.editor_session import EditorSession
from lintrain.server.positions import split_lines
from lintrain.source.source import MARK
from lintrain.startup.lazy_pattern import lazy_pattern

RULE_NAME = lazy_pattern(r"[a-z0-9]+(?:-[a-z0-9]+)*")


async def hover(session: EditorSession, given: lsp.HoverParams) -> lsp.Hover | None:
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


def _named(session: EditorSession, uri: str, at: lsp.Position) -> str | None:
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


def page_of(name: str) -> Page | None:
    """The page of a rule or built-in finding."""
    return _by_name().get(name)


def written_page(name: str, text: str) -> str | None:
    """The file with a page in the user's cache folder, for an editor to show; None where it cannot be written."""
    folder = store_folder("pages")
    try:
        make_folder(folder)
        if not is_ours(folder):
            return None
        put(folder, f"{name}.md", HEADS["pages"] + text.encode() + b"\n")
    except OSError:
        return None
    return os.path.join(folder, f"{name}.md")  # noqa: PTH118 - as the folder


@cache
def _by_name() -> dict[str, Page]:
    return {page.name: page for page in pages(load_rules())}
