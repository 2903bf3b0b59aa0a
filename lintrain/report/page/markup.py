"""HTML: escaped elements, the sections and tables that a page is made of, and the page around them."""

from __future__ import annotations

import html
from base64 import b64encode
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

from lintrain.report.text.style import printable
from lintrain.text import inert

VOID = frozenset({"br", "img", "link", "meta"})
NAMES = {"class_": "class", "for_": "for"}


class Markup(str):
    """Escaped HTML: the result of `tag` and `joined`, and the stylesheet."""

    __slots__ = ()


Piece: TypeAlias = "str | int | Iterable[Piece] | None"
"""The content of an element: a plain string is escaped text, None is nothing."""


def tag(name: str, /, *inside: Piece, **attributes: str | float | bool | None) -> Markup:
    """An element; `_` in the name of an attribute means `-`, an attribute that is None or False is omitted."""
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in VOID:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{joined(*inside)}</{name}>")


def joined(*pieces: Piece) -> Markup:
    """Pieces joined, with text escaped."""
    return Markup("".join(_written(piece) for piece in pieces))


def with_code(text: str) -> Markup:
    """A message with the text between backticks as code."""
    parts = text.split("`")
    whole = len(parts) - 1 + len(parts) % 2
    return joined(
        tag("code", part) if number % 2 and number < whole else ("`" if number % 2 else "") + part
        for number, part in enumerate(parts)
    )


def _written(piece: Piece) -> str:
    match piece:
        case None:
            return ""
        case Markup():
            return piece
        case str():
            return html.escape(_shown(piece))
        case int():
            return str(piece)
        case _:
            return "".join(_written(inner) for inner in piece)


def _attribute(name: str, value: str | float | bool | None) -> str:
    if value is None or value is False:
        return ""
    written = NAMES.get(name, name).replace("_", "-")
    return f" {written}" if value is True else f' {written}="{html.escape(_shown(str(value)))}"'


def _shown(text: str) -> str:
    """Text without control characters."""
    return inert(printable(text))


def section(title: str, *inside: Piece) -> Markup:
    """A part of the page under a heading."""
    return tag("section", tag("h3", title), *inside)


def figure(caption: str, chart: Piece) -> Markup:
    """A chart under its caption."""
    return tag("figure", tag("figcaption", with_code(caption)), chart)


def table(head: Sequence[str], rows: Sequence[Sequence[Piece]], *, caption: str, kind: str = "numbers") -> Markup:
    """A table; on a narrow page, one of kind `numbers` scrolls and one of kind `words` wraps its last column."""
    body = tag(
        "table",
        tag("caption", caption),
        tag("thead", tag("tr", (tag("th", name, scope="col") for name in head))),
        tag("tbody", (tag("tr", (tag("td", cell) for cell in row)) for row in rows)),
        class_=kind,
    )
    return tag("div", body, class_="scrolls", tabindex="0", role="region", aria_label=caption)


STYLESHEET, SCRIPT = Path(__file__).with_name("page.css"), Path(__file__).with_name("page.js")


def whole_page(title: str, *inside: Piece) -> str:
    """The whole page as HTML: its script runs and no other, and the browser sends no request, whatever it contains."""
    script = SCRIPT.read_text(encoding="utf-8")
    body = tag("body", _switch(), *inside, tag("script", Markup(script)))
    return f"<!DOCTYPE html>\n{tag('html', _head(title, script), body, lang='en')}\n"


def _switch() -> Markup:
    """The choice of light and dark; hidden where the script does not run, and then the browser's setting counts."""
    choices = (("", "auto"), ("light", "light"), ("dark", "dark"))
    options = [tag("option", shown, value=value) for value, shown in choices]
    return tag("label", "theme ", tag("select", options, id="theme"), class_="switch", hidden=True)


def policy_for(script: str) -> str:
    """What the browser allows on the page: its styles, its own script by digest, and no request."""
    digest = b64encode(sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'"


def _head(title: str, script: str) -> Markup:
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy_for(script)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Markup(STYLESHEET.read_text(encoding="utf-8"))),
    )
