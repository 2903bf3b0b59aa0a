"""The rules of a SARIF log, each with its whole page as help."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lintrain.report.documentation import address_of
from lintrain.report.markdown import markdown
from lintrain.report.text.pages import Page

Json = dict[str, Any]  # Any: whatever JSON holds


def rule_objects(pages: Iterable[Page], documentation: str | None = None) -> list[Json]:
    """The descriptors of these rules, in their order."""
    return [_rule(page, address_of(page.name, documentation)) for page in pages]


def _rule(page: Page, address: str) -> Json:
    return {
        "id": page.name,
        "name": "".join(word.capitalize() for word in page.name.split("-")),
        "shortDescription": {"text": page.manual.title},
        "fullDescription": {"text": " ".join(page.manual.why.split()) or page.manual.title},
        "help": {"text": _text(page), "markdown": markdown(page)},
        **({"helpUri": address} if address else {}),
        "defaultConfiguration": {"level": page.level.value},
        "properties": {"tags": ["machine-learning", page.stage], "problem.severity": _severity(page)},
    }


def _severity(page: Page) -> str:
    """The words of code scanning for a level."""
    return {"note": "recommendation"}.get(page.level.value, page.level.value)


def _text(page: Page) -> str:
    sections = (f"{heading}\n\n{text}" for heading, text in page.manual.sections.items())
    return "\n\n".join([page.manual.title, page.manual.why, *sections])
