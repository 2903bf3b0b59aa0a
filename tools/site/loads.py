"""What a built page would load from elsewhere: it should be nothing, so that the site works offline."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

LOADING = {
    "script": "src",
    "link": "href",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "embed": "src",
    "object": "data",
    "image": "href",
    "use": "href",
}
ELSEWHERE = re.compile(r"(?:[a-z]+:)?//", re.IGNORECASE)
IN_STYLE = re.compile(r"(?:@import|url\()\s*[\"']?((?:https?:)?//[^\s\"')]+)", re.IGNORECASE)


def loads_from_elsewhere(site: Path) -> list[str]:
    """Every address outside the site that a page or a style sheet loads, with the file that does."""
    return sorted(
        f"{path.relative_to(site).as_posix()} loads {address}"
        for path in site.rglob("*")
        if path.suffix in (".html", ".css", ".svg")
        for address in _addresses(path.read_text(encoding="utf-8"))
    )


def _addresses(text: str) -> Iterator[str]:
    yield from IN_STYLE.findall(text)
    reader = _Loads()
    reader.feed(text)
    yield from reader.found


class _Loads(HTMLParser):
    """Collects what the elements of a page load; a link that a reader follows loads nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        address = given.get(LOADING.get(tag, "")) or given.get("srcset") or ""
        if ELSEWHERE.match(address) and given.get("rel") not in ("canonical", "alternate", "edit"):
            self.found.append(address)
