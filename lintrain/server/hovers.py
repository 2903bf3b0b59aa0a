"""Hovers: the last verdict and the rule's page for a finding, and the page for a rule in a suppression comment.

The message of the finding is left out, since editors show the diagnostic in the same window.

The code lens above each training call, which probes the script.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache

from lsprotocol import types as lsp

from lintrain.cache.folder import is_ours, store_folder
from lintrain.cache.whole_files import HEADS, make_folder, put
from lintrain.check.result import Reported
from lintrain.report.markdown import brief_markdown, escaped_markdown, markdown
from lintrain.report.text.pages import Page, address_of, pages
from lintrain.rulebook import load_rules
from lintrain.server.editor_session import EditorSession
from lintrain.server.positions import file_of, split_lines, uri_of
from lintrain.source.source import MARK
from lintrain.source.training_syntax import runs_itself
from lintrain.startup.lazy_pattern import lazy_pattern

RULE_NAME = lazy_pattern(r"[a-z0-9]+(?:-[a-z0-9]+)*")


async def hover(session: EditorSession, given: lsp.HoverParams) -> lsp.Hover | None:
    """The hover at a position."""
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
                texts += _of_finding(session, document.path, one)
                where = where or location.range
    if named := _named(session, uri, at):
        texts.append(named)
    if not texts:
        return None
    kind = lsp.MarkupKind.Markdown if session.client.reads_markdown else lsp.MarkupKind.PlainText
    return lsp.Hover(contents=lsp.MarkupContent(kind=kind, value="\n\n---\n\n".join(dict.fromkeys(texts))), range=where)


def _of_finding(session: EditorSession, path: str, one: Reported) -> Iterator[str]:
    """The last verdict, and the short page of the rule."""
    if one.verdict:
        yield f"**{one.verdict.outcome.value}** by the last probe: {escaped_markdown(one.verdict.reason)}"
    if page := page_of(session, one.finding.rule):
        yield brief_markdown(page, _link(session, path, page))


def _link(session: EditorSession, path: str, page: Page) -> str:
    """A link to the whole page: on the project's documentation site, else in a file; its command in a plain text."""
    documentation = session.projects.of(path, session.settings_for(path)).documentation
    if session.client.reads_markdown:
        file = "" if documentation else written_page(page.name, markdown(page))
        address = address_of(page.name, documentation) or (uri_of(file) if file else "")
        if address:
            return f"[Examples, and when it is fine]({address})"
    return f"`lintrain explain {page.name}` shows examples, and when it is fine."


def _holds(location: lsp.Range, at: lsp.Position) -> bool:
    here = (at.line, at.character)
    return (location.start.line, location.start.character) <= here <= (location.end.line, location.end.character)


def _named(session: EditorSession, uri: str, at: lsp.Position) -> str | None:
    """The page of the rule at a position in a suppression comment."""
    document = session.documents.find(uri)
    text = next((text for text in document.texts if text.uri == uri), None) if document else None
    lines = split_lines(text.text) if text else []
    if not 0 <= at.line < len(lines) or MARK not in lines[at.line]:
        return None
    column = session.client.units.characters(lines[at.line], at.character)
    word = next((each[0] for each in RULE_NAME.finditer(lines[at.line]) if each.start() <= column <= each.end()), "")
    page = page_of(session, word)
    return brief_markdown(page, _link(session, document.path, page)) if document and page else None


def page_of(session: EditorSession, name: str) -> Page | None:
    """The page of a rule, which may be of a project's own, or of a built-in finding."""
    own = session.projects.own_rule(name)
    return next(iter(pages([own]))) if own else _by_name().get(name)


def written_page(name: str, text: str) -> str | None:
    """Write a page to the user's cache folder for an editor to show; None if that fails."""
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


PROBE = "lintrain.probe"
REPORT = "lintrain.report"
TITLE = "Probe this training run"


async def code_lenses(session: EditorSession, given: lsp.CodeLensParams) -> list[lsp.CodeLens]:
    """A lens above each training call of a script; at the top if the call is in an imported module."""
    uri = given.text_document.uri
    document = session.documents.find(uri)
    if document is None or file_of(document.uri) is None or not session.settings_for(document.path).code_lens:
        return []
    checked = await session.checked(document)
    source = checked.file.source if checked else None
    if checked is None or source is None:
        return []
    locations = checked.file.training
    mine = [location for location in locations if location.path == checked.path]
    if not runs_itself(source) and not any(source.lines[location.line - 1][:1].strip() for location in mine):
        return []
    where = [at.range for location in mine if (at := session.viewer.locate(checked, location)) and at.uri == uri]
    if locations and not mine and uri == document.texts[0].uri:
        where = [lsp.Range(start=lsp.Position(line=0, character=0), end=lsp.Position(line=0, character=0))]
    lines = {each.start.line: each.start for each in where}
    command = lsp.Command(title=TITLE, command=PROBE, arguments=[document.uri])
    return [lsp.CodeLens(range=lsp.Range(start=start, end=start), command=command) for start in lines.values()]
