"""A rule's page as Markdown, for viewers of findings and for the pages of the documentation."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from textwrap import dedent

from lintrain.report.pages import Page


def markdown(page: Page) -> str:
    """A page with its title, its examples fenced so that they are highlighted."""
    sections = (f"## {heading}\n\n{fenced(text)}" for heading, text in page.manual.sections.items())
    return "\n\n".join([f"# {page.manual.title}", fenced(page.manual.why), *sections])


def fenced(text: str) -> str:
    """A text with each indented block of code between fences."""
    return "\n".join(_blocks(text.strip("\n").split("\n")))


def _blocks(lines: list[str]) -> Iterator[str]:
    """The lines with each indented block between fences; blank lines at its end stay outside."""
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
