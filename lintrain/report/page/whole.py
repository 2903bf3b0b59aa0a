"""What every page is set in: its style, and a policy that lets it ask nobody."""

from __future__ import annotations

from pathlib import Path

from lintrain.report.page.markup import Markup, Piece, tag

STYLE = Path(__file__).with_name("page.css")
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""A browser asks nobody for anything, whatever the page holds."""


def whole_page(title: str, *inside: Piece) -> str:
    """A page as a file holds it."""
    return f"<!DOCTYPE html>\n{tag('html', _head(title), tag('body', *inside), lang='en')}\n"


def _head(title: str) -> Markup:
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Markup(STYLE.read_text(encoding="utf-8"))),
    )
