"""The findings of each file under its name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from lintrain.check.result import Reported
from lintrain.report.text.full import message_of
from lintrain.report.text.look import Look
from lintrain.source.written_places import FindSource, location_of
from lintrain.text.shown import shown


def grouped(reported: Iterable[Reported], find_source: FindSource, look: Look) -> Iterator[str]:
    """A block for each file: its name, and a line for each finding with the places in one column."""
    in_order = sorted(reported, key=lambda one: one.finding.location.path)
    for path, group in groupby(in_order, key=lambda one: one.finding.location.path):
        found = [(location_of(one.finding.location, find_source).removeprefix(f"{shown(path)}:"), one) for one in group]
        width = max(len(where) for where, _ in found)
        lines = (f"  {where:<{width}}  {_said(one, find_source, look)}" for where, one in found)
        yield "\n".join([f"{look.paint(shown(path), bold=True)}:", *lines])


def _said(one: Reported, find_source: FindSource, look: Look) -> str:
    finding = one.finding
    level = look.level(finding.level, f"{finding.level}[{finding.rule}]")
    verdict = f" ({look.outcome(one.verdict.outcome)})" if one.verdict else ""
    return f"{level} {look.code(message_of(finding, find_source))}{verdict}"
