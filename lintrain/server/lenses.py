"""The code lens over each training call, which probes the script."""

from __future__ import annotations

from lsprotocol import types as lsp

from lintrain.server.editor_session import EditorSession
from lintrain.server.paths import file_of
from lintrain.source.training_syntax import runs_itself

PROBE = "lintrain.probe"
TITLE = "Probe this training run"


async def code_lenses(session: EditorSession, given: lsp.CodeLensParams) -> list[lsp.CodeLens]:
    """A lens over each place where a script starts training; at the top where that lies in one of its modules."""
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
