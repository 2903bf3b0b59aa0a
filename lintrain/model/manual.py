"""The manual page of a rule: its module docstring, parsed."""

from __future__ import annotations

import re
from textwrap import dedent

from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Manual:
    """A rule's page: what the mistake is, why it matters, and the examples that tests run.

    `sections` holds the text under each `## Heading`, in order.
    """

    title: str
    why: str
    sections: dict[str, str]

    def examples(self, heading: str) -> list[str]:
        """The indented code blocks under a heading, dedented."""
        return code_blocks(self.sections.get(heading, ""))


def read_manual(docstring: str) -> Manual:
    """Parse a rule's docstring into its first line, the paragraphs below it, and its sections."""
    head, *parts = re.split(r"^## +(.+)$", docstring, flags=re.MULTILINE)
    title, _, why = head.strip().partition("\n")
    sections = {name.strip(): text.strip("\n") for name, text in zip(parts[::2], parts[1::2], strict=True)}
    return Manual(title.strip(), why.strip(), sections)


def code_blocks(text: str) -> list[str]:
    """The blocks of a text that are indented by four or more spaces, blank lines inside them kept."""
    blocks: list[list[str]] = []
    inside = False
    for line in text.splitlines():
        if line.startswith("    "):
            if not inside:
                blocks.append([])
            blocks[-1].append(line)
            inside = True
        elif inside and not line.strip():
            blocks[-1].append("")
        else:
            inside = False
    return [dedent("\n".join(block)).strip("\n") + "\n" for block in blocks]
