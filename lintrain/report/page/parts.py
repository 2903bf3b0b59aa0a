"""Sections, figures and tables: what the parts of a page are made of."""

from __future__ import annotations

from collections.abc import Sequence

from lintrain.report.page.markup import Markup, Piece, tag


def section(title: str, *inside: Piece) -> Markup:
    """A part of the page under a heading."""
    return tag("section", tag("h3", title), *inside)


def figure(caption: str, chart: Piece) -> Markup:
    """A chart under its caption."""
    return tag("figure", tag("figcaption", caption), chart)


def table(head: Sequence[str], rows: Sequence[Sequence[Piece]], *, caption: str, kind: str = "numbers") -> Markup:
    """A table; where the page is too narrow, one of `numbers` scrolls by itself, one of `words` puts the last below."""
    body = tag(
        "table",
        tag("caption", caption),
        tag("thead", tag("tr", (tag("th", name, scope="col") for name in head))),
        tag("tbody", (tag("tr", (tag("td", cell) for cell in row)) for row in rows)),
        class_=kind,
    )
    return tag("div", body, class_="scrolls", tabindex="0", role="region", aria_label=caption)
