"""The page of a rule as Markdown, for hovers and for reading in the editor."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from textwrap import dedent

from lintrain.builtin import BUILTINS
from lintrain.check.outcome import Reported
from lintrain.core.manual import Manual
from lintrain.rulebook import load_rules

SHORT = ("When it is fine",)
"""The sections that a hover shows: the examples are for the whole page."""


def manual_of(name: str) -> Manual | None:
    """The manual page of a rule or built-in finding."""
    if name in BUILTINS:
        return BUILTINS[name].manual
    return next((rule.manual for rule in load_rules() if rule.name == name), None)


def page(name: str) -> str | None:
    """The whole page of a rule."""
    manual = manual_of(name)
    return "\n\n".join(_page(name, manual, tuple(manual.sections))) + "\n" if manual else None


def finding_text(one: Reported) -> str:
    """What a hover says over a finding: the finding, the last verdict, and the page without its examples."""
    finding, manual = one.finding, manual_of(one.finding.rule)
    parts = [f"**{finding.rule}**: {finding.message}"]
    if one.verdict:
        parts.append(f"**{one.verdict.ruling.value}** by the last probe: {one.verdict.reason}")
    if finding.help:
        parts.append(f"**help**: {finding.help}")
    if one.fix:
        parts.append(f"**fix**: {one.fix.title}" + ("" if one.fix.safe else " (may change a correct run)"))
    rest = list(_page(finding.rule, manual, SHORT)) if manual else []
    return "\n\n".join([*parts, "---", *rest] if rest else parts)


def _page(name: str, manual: Manual, sections: tuple[str, ...]) -> Iterator[str]:
    yield f"### {name}: {manual.title}"
    yield _prose(manual.why)
    for heading in sections:
        if heading in manual.sections:
            yield f"#### {heading}"
            yield _prose(manual.sections[heading])


def _prose(text: str) -> str:
    """The text of a page: indented blocks become fenced ones, paragraphs one line each."""
    blocks: list[str] = []
    for kind, group in groupby(
        text.strip("\n").split("\n"), lambda line: line.startswith("    ") or None if line.strip() else ""
    ):
        lines = list(group)
        if kind:
            blocks.append("```python\n" + dedent("\n".join(lines)) + "\n```")
        elif kind is None:
            blocks.append(" ".join(line.strip() for line in lines))
    return "\n\n".join(blocks)
