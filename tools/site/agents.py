"""What coding agents read of the site: `llms.txt`, and a Markdown twin of each page at its address with `.md`."""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

LIST = "llms.txt"
LONGEST = 200
"""Characters of what is said of a page."""

HEAD = """\
# lintrain

> A linter for scripts that train models. `lintrain check` reads a script and runs nothing; `lintrain probe` runs it up
> to its training call and measures real batches. Each page has a Markdown twin; these are listed here.
"""


def write_for_agents(pages: Path, site: Path, configuration: Path) -> None:
    """Write the twins and the list into the built site."""
    for page in pages.rglob("*.md"):
        twin = site / page.relative_to(pages)
        twin.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(page, twin)
    navigation = tomllib.loads(configuration.read_text(encoding="utf-8"))["project"]["nav"]
    text = "\n".join([HEAD, *_sections(navigation, pages)])
    (site / LIST).write_text(text.rstrip() + "\n", encoding="utf-8")


def _sections(entries: object, pages: Path) -> Iterator[str]:
    """A section for each entry of the menu that has pages below it; the single pages first."""
    listed = cast("list[object]", entries)
    single = [path for entry in listed for path in _paths(entry) if not _is_section(entry)]
    if single:
        yield from ["## Pages", "", *(_line(path, pages) for path in single), ""]
    for entry in listed:
        if _is_section(entry):
            for name, below in cast("Mapping[str, object]", entry).items():
                yield from [f"## {name}", "", *(_line(path, pages) for path in _paths(below)), ""]


def _is_section(entry: object) -> bool:
    return isinstance(entry, dict) and any(
        isinstance(below, list) for below in cast("Mapping[str, object]", entry).values()
    )


def _paths(entry: object) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, dict):
        yield from _paths(list(cast("Mapping[str, object]", entry).values()))
    else:
        for part in cast("list[object]", entry):
            yield from _paths(part)


def _line(path: str, pages: Path) -> str:
    text = (pages / path).read_text(encoding="utf-8")
    title = re.search(r"^# (.+)$", text, re.MULTILINE)
    about = _first_sentence(text)
    return f"- [{title[1] if title else path}]({path}){f': {about}' if about else ''}"


def _first_sentence(text: str) -> str:
    """The first sentence of prose, without the targets of its links."""
    blocks = (" ".join(block.split()) for block in text.split("\n\n"))
    prose = next((block for block in blocks if re.match(r"[A-Z]|`[^`]", block)), "")
    sentence = re.split(r"(?<=[.:])\s", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", prose), maxsplit=1)[0].rstrip(":")
    return sentence if len(sentence) <= LONGEST else f"{sentence[: LONGEST - 1]}…"
