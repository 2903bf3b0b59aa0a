"""The page of a rule, for hovers and for reading in the editor."""

from __future__ import annotations

from functools import cache

from lintrain.report.pages import Page, pages
from lintrain.rulebook import load_rules


def page_of(name: str) -> Page | None:
    """The page of a rule or built-in finding."""
    return _by_name().get(name)


@cache
def _by_name() -> dict[str, Page]:
    return {page.name: page for page in pages(load_rules())}
