"""A rule's page as Markdown: for SARIF, for editors, and for the documentation.

Python code that lintrain writes: formatted by ruff, with text from the user safely quoted.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from itertools import groupby
from textwrap import dedent

from lintrain.check.names.ruff import find_ruff
from lintrain.report.text.pages import Page
from lintrain.startup.lazy_pattern import lazy_pattern
from lintrain.text import shown

SIGNS = lazy_pattern(r"[!-/:-@\[-`{-~]")
"""ASCII punctuation, which Markdown shows literally after a backslash."""

WITHIN_PARAGRAPH = lazy_pattern(r"(?<=\S)\n(?=\S)(?![-*+|>#]|\d+[.)] )")
"""A line end within a paragraph: no list item and no table row begins after it."""


def markdown(page: Page) -> str:
    """The whole page with its title, its examples as fenced code."""
    sections = (f"## {heading}\n\n{flowing(text)}" for heading, text in page.manual.sections.items())
    return "\n\n".join([f"# {page.name}: {page.manual.title}", flowing(page.manual.why), *sections])


def brief_markdown(page: Page, link: str) -> str:
    """The page for a hover: the mistake, its consequence, and where the whole page is."""
    return "\n\n".join([f"**{page.name}**: {page.manual.title}", flowing(page.manual.why), link])


def escaped_markdown(text: str) -> str:
    """A text that Markdown shows literally, without links, images and HTML; text between backticks stays code."""
    text = shown(text)
    if "``" in text or text.count("`") % 2:
        return SIGNS.sub(r"\\\g<0>", text)
    parts = text.split("`")
    return "`".join(part if number % 2 else SIGNS.sub(r"\\\g<0>", part) for number, part in enumerate(parts))


def flowing(text: str) -> str:
    """A text with fenced code and one line per paragraph, which editors wrap themselves."""
    parts = re.split(r"(^```.*?^```$)", fenced(text), flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else WITHIN_PARAGRAPH.sub(" ", part) for part in parts)


def fenced(text: str) -> str:
    """A text with indented code as fenced code."""
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


SORTED = ("check", "--fix-only", "--quiet", "--select", "I,F401,F811")
SHAPED = ("format", "--line-length", "100")


def formatted(text: str) -> str:
    """The code formatted, with imports sorted and unused ones removed; unchanged without ruff."""
    program = find_ruff()
    for command in (SORTED, SHAPED) if program else ():
        words = [program or "", *command, "--isolated", "-"]
        done = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
        text = done.stdout if done.returncode == 0 and done.stdout else text
    return text


def literal(text: str) -> str:
    """A string literal of the text, in ASCII and double quotes."""
    return '"' + text.encode("unicode_escape").decode("ascii").replace('"', '\\"') + '"'


def in_docstring(text: str) -> str:
    """The text escaped for a line of a docstring."""
    return shown(text).replace("\\", "\\\\").replace('"', '\\"')
