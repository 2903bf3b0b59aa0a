"""The rules of a SARIF log, each with its whole page as help."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from textwrap import dedent
from typing import Any

from lintrain.report.pages import Page

Json = dict[str, Any]  # Any: whatever JSON holds


def rule_objects(pages: Iterable[Page]) -> list[Json]:
    """The descriptors of these rules, in their order."""
    return [_rule(page) for page in pages]


def _rule(page: Page) -> Json:
    return {
        "id": page.name,
        "name": "".join(word.capitalize() for word in page.name.split("-")),
        "shortDescription": {"text": page.manual.title},
        "fullDescription": {"text": " ".join(page.manual.why.split()) or page.manual.title},
        "help": {"text": _text(page), "markdown": markdown(page)},
        "defaultConfiguration": {"level": page.level.value},
        "properties": {"tags": ["machine-learning", page.stage], "problem.severity": _severity(page)},
    }


def _severity(page: Page) -> str:
    """The words of code scanning for a level."""
    return {"note": "recommendation"}.get(page.level.value, page.level.value)


def _text(page: Page) -> str:
    sections = (f"{heading}\n\n{text}" for heading, text in page.manual.sections.items())
    return "\n\n".join([page.manual.title, page.manual.why, *sections])


def markdown(page: Page) -> str:
    """A page as Markdown, its examples fenced so that they are highlighted."""
    sections = (f"## {heading}\n\n{_fenced(text)}" for heading, text in page.manual.sections.items())
    return "\n\n".join([f"# {page.manual.title}", _fenced(page.manual.why), *sections])


def _fenced(text: str) -> str:
    return "\n".join(_blocks(text.strip("\n").split("\n")))


def _blocks(lines: list[str]) -> Iterator[str]:
    """The lines with each indented block between fences; blank lines at its end stay outside."""
    blank = 0
    for is_code, group in groupby(_marked(lines), key=lambda pair: pair[0]):
        block = [line for _, line in group]
        if not is_code:
            yield from block
            continue
        blank = len(block) - len("\n".join(block).rstrip("\n").split("\n"))
        code = dedent("\n".join(block[: len(block) - blank]))
        yield from ("```python", *code.split("\n"), "```", *block[len(block) - blank :])


def _marked(lines: list[str]) -> Iterator[tuple[bool, str]]:
    """Every line with whether it belongs to code: a blank one does as the line above it."""
    is_code = False
    for line in lines:
        if line.strip():
            is_code = line.startswith("    ")
        yield is_code, line
