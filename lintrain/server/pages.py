"""The page of a rule, for hovers and for reading in the editor."""

from __future__ import annotations

import os
from functools import cache

from lintrain.cache.folder import is_ours, store_folder
from lintrain.cache.whole_files import HEADS, make_folder, put
from lintrain.report.text.pages import Page, pages
from lintrain.rulebook import load_rules


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
