"""What a probe's report says: findings with their verdicts, by the file that they are about."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from lintrain.check.result import Reported
from lintrain.model.finding import Finding, Related
from lintrain.model.level import Level
from lintrain.model.location import Location
from lintrain.model.verdict import Outcome, Verdict
from lintrain.rule import Rule
from lintrain.rulebook import load_rules
from lintrain.server.checking import digest_of
from lintrain.source.reading import UnreadableError, load_bytes, read_bytes
from lintrain.source.source import Source
from lintrain.verdicts.probed_fix import probed_fix

Json = Mapping[str, Any]  # Any: whatever JSON holds


def measured_findings(report: Json, folder: str) -> dict[str, tuple[str, list[Reported]]]:
    """The findings of a report by file, each with the digest of the text that it is about.

    Paths are relative to the folder that the probe was started in. What the text shows, too, is among them.
    """
    found: dict[str, list[Json]] = {}
    for one in report["findings"]:
        path = os.path.normpath(os.path.join(folder, one["location"]["path"]))  # noqa: PTH118 - paths are strings here
        found.setdefault(path, []).append(one)
    rules = {rule.name: rule.rule for rule in load_rules()}
    return {path: each for path, entries in found.items() if (each := _of_file(path, entries, rules))}


def _of_file(path: str, entries: list[Json], rules: Mapping[str, Rule]) -> tuple[str, list[Reported]] | None:
    try:
        raw = load_bytes(path)
        source = read_bytes(path, raw)
    except UnreadableError:
        return None
    return digest_of(raw), [_reported(source, one, rules) for one in entries]


def _reported(source: Source, one: Json, rules: Mapping[str, Rule]) -> Reported:
    finding = Finding(
        one["rule"],
        Level(one["level"]),
        _location(source, one["location"]),
        one["message"],
        one["why"],
        one["help"],
        tuple(_reason(source, each) for each in one["related"] if each["location"]["path"] == one["location"]["path"]),
        claim=one["claim"],
    )
    told = one["verdict"]
    verdict = Verdict(Outcome(told["outcome"]), told["reason"], told["measured"]) if told else None
    rule = rules.get(finding.rule) if verdict and verdict.outcome is Outcome.CONFIRMED else None
    return Reported(finding, probed_fix(rule, finding, source) if rule else None, verdict, is_measured=True)


def _reason(source: Source, each: Json) -> Related:
    return Related(_location(source, each["location"]), each["note"], each["role"])


def _location(source: Source, at: Json) -> Location:
    """The place in the text that is read: of a notebook the joined cells."""
    cells = source.notebook.cells if source.notebook else ()
    above = next((cell.first_line - 1 for cell in cells if cell.number == at["cell"]), 0)
    line, end_line = above + at["line"], above + at["end_line"]
    return Location(source.path, line, at["column"], end_line, at["end_column"])
