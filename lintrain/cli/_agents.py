"""What `lintrain init --agents` writes: a section of AGENTS.md, and the server in the files that agents read.

Every file keeps what it has. A section is between two marks, so that a later version of lintrain can replace its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from lintrain.startup.lazy_dataclass import dataclass

SECTION_FILE = "AGENTS.md"
BEGIN, END = "<!-- lintrain: begin -->", "<!-- lintrain: end -->"
SECTION = f"""\
{BEGIN}
## Scripts that train models

Check such a script with lintrain before you run it:

1. `lintrain check --output-format agent FILE` reads it and runs nothing. Each finding has its line, the reason and the
   fix as a diff.
2. `lintrain check --fix FILE` writes the safe fixes; `--unsafe-fixes` writes the others too, so read these first.
3. `lintrain probe --output-format agent FILE` runs the script up to its training call and judges the findings on real
   batches. Ask the user first.

`lintrain explain RULE` explains a finding, `lintrain explain "TEXT OF AN ERROR"` the cause of an error. To keep a line
as it is, write `# lintrain: ignore[RULE] -- reason` at its end.
{END}
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a JSON file: the file, the folder that must exist for it, the keys, and the value under the last."""

    file: str
    folder: str
    keys: tuple[str, ...]
    value: Any  # Any: JSON
    summary: str


SERVER = {"command": "lintrain", "args": ["mcp"]}
HOOK = {
    "matcher": "Edit|Write|NotebookEdit",
    "hooks": [
        {
            "type": "command",
            # Findings (1) go back to the agent (2). Neither a missing commit nor a missing lintrain stops it.
            "command": "lintrain check --changed-since HEAD --quiet --output-format agent 1>&2; [ $? -ne 1 ] || exit 2",
        }
    ],
}
ENTRIES = (
    Entry(".mcp.json", "", ("mcpServers", "lintrain"), SERVER, "the server `lintrain mcp`"),
    Entry(".cursor/mcp.json", ".cursor", ("mcpServers", "lintrain"), SERVER, "the server `lintrain mcp`"),
    Entry(".vscode/mcp.json", ".vscode", ("servers", "lintrain"), SERVER, "the server `lintrain mcp`"),
    Entry(".claude/settings.json", ".claude", ("hooks", "PostToolUse"), [HOOK], "a check after each edit"),
)


class UnusualError(ValueError):
    """A file that something cannot be added to without changing the rest of it."""


def with_section(text: str) -> str:
    """A Markdown file with the section: at its end, or where it is; raises UnusualError if a mark is missing."""
    if (BEGIN in text) != (END in text) or text.count(BEGIN) > 1 or text.count(END) > 1:
        raise UnusualError
    if BEGIN in text:
        before, _, rest = text.partition(BEGIN)
        return f"{before}{SECTION.rstrip()}{rest.partition(END)[2]}"
    return f"{text.rstrip()}\n\n{SECTION}" if text.strip() else SECTION


def with_entry(text: str, entry: Entry) -> str:
    """A JSON file with an entry; unchanged if it has one. Raises UnusualError for a file that is written otherwise."""
    if not text.strip():
        return json.dumps(_nested(entry.keys, entry.value), indent=2) + "\n"
    try:
        document: object = json.loads(text)
    except ValueError as error:
        raise UnusualError from error
    if not isinstance(document, dict):
        raise UnusualError
    found = cast("dict[str, object]", document)
    outer, inner = entry.keys
    held = found.get(outer)
    if isinstance(held, dict) and inner in cast("dict[str, object]", held):
        if mentions_us(cast("dict[str, object]", held)[inner]):
            return text
        raise UnusualError  # a list of other hooks
    after = _inserted(text, entry, has_outer=outer in found)
    wanted = {**found, outer: {**cast("dict[str, object]", held or {}), inner: entry.value}}
    if json.loads(after) != wanted:
        raise UnusualError
    return after


def mentions_us(value: object) -> bool:
    """Whether a JSON value names lintrain."""
    return "lintrain" in json.dumps(value)


def as_text(entry: Entry) -> str:
    """The entry alone, for a file that it has to be added to by hand."""
    return json.dumps(_nested(entry.keys, entry.value), indent=2)


def _inserted(text: str, entry: Entry, *, has_outer: bool) -> str:
    """The text with the entry as the first one of its object; raises UnusualError if that object is not found."""
    outer, inner = entry.keys
    start = re.search(rf'"{outer}"\s*:\s*\{{', text) if has_outer else re.search(r"\{", text)
    if start is None:
        raise UnusualError
    indent = 4 if has_outer else 2
    name, value = (inner, entry.value) if has_outer else (outer, {inner: entry.value})
    written = json.dumps(value, indent=2).replace("\n", "\n" + " " * indent)
    rest = text[start.end() :]
    is_empty = rest.lstrip().startswith("}")
    closing = "\n" + " " * (indent - 2) if is_empty else ","
    if is_empty:
        rest = rest.lstrip()
    return f'{text[: start.end()]}\n{" " * indent}"{name}": {written}{closing}{rest}'


def _nested(keys: tuple[str, ...], value: Any) -> Mapping[str, Any]:  # Any: JSON
    outer, inner = keys
    return {outer: {inner: value}}
