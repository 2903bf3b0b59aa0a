"""SARIF 2.1.0, the format of code scanning: rules with their pages, findings with fixes, verdicts and suppressions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from lintrain._version import __version__
from lintrain.report.machine.document import (
    CheckReport,
    CrashEntry,
    EditEntry,
    FindingEntry,
    FixEntry,
    LocationEntry,
    ProbeEntry,
    RelatedEntry,
    SuppressedEntry,
    UnjudgedEntry,
    is_refuted,
)
from lintrain.report.machine.wording import (
    STDIN,
    absolute,
    cell_of,
    file_uri,
    folder_uri,
    one_line,
    remarks_of,
    repository_root,
    uri_in,
)
from lintrain.report.markdown import markdown
from lintrain.report.text.pages import Page, address_of
from lintrain.source.source import FindSource
from lintrain.startup.lazy_pattern import lazy_pattern
from lintrain.text import plain

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
ROOT = "%SRCROOT%"
FINGERPRINT = "lintrain/v1"
LINK = lazy_pattern(r"\[(?=[^\]]*\]\(\d+\))")
"""What a SARIF viewer would read as a link into the result."""

Json = dict[str, Any]  # Any: whatever JSON holds


def sarif(report: CheckReport, find_source: FindSource, pages: Sequence[Page], documentation: str | None = None) -> str:
    """A log of one run as JSON; `pages` are the pages of all rules, `documentation` the address of their site."""
    run = _run(report, code_finder(find_source), pages, documentation)
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(plain(log), indent=2, ensure_ascii=False).encode("utf-8", "replace").decode()


def _run(report: CheckReport, code: FindCode, pages: Sequence[Page], documentation: str | None) -> Json:
    named = {entry.rule for entry in (*report.findings, *(one.finding for one in report.suppressed))}
    shown = [page for page in pages if page.name in named]
    numbers = {page.name: number for number, page in enumerate(shown)}
    judged = bool(report.probes)
    about = {"informationUri": documentation} if documentation else {}
    rules = rule_objects(shown, documentation)
    return {
        "tool": {"driver": {"name": "lintrain", "version": __version__, **about, "rules": rules}},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {ROOT: {"uri": folder_uri(repository_root())}},
        "invocations": _invocations(report),
        "results": [
            *(_result(entry, numbers, code, judged=judged) for entry in report.findings),
            *(_suppressed(one, numbers, code, judged=judged) for one in report.suppressed),
        ],
    }


def _invocations(report: CheckReport) -> list[Json]:
    check = {
        "executionSuccessful": not report.crashes,
        "toolExecutionNotifications": [
            *(_notification(crash) for crash in report.crashes),
            *(_not_judged(one) for one in report.unjudged),
        ],
    }
    return [check, *map(_probe, report.probes)]


def _notification(crash: CrashEntry) -> Json:
    return {
        "level": "error",
        "message": {"text": f"`{crash.rule}` crashed: {one_line(crash.error)}"},
        "locations": [{"physicalLocation": {"artifactLocation": _artifact(crash.path)}}],
    }


def _not_judged(one: UnjudgedEntry) -> Json:
    return {
        "level": "warning",
        "message": {"text": f"not judged by `{one.rule}`: {one_line(one.reason)}"},
        "locations": [{"physicalLocation": {"artifactLocation": _artifact(one.path)}}],
    }


def _probe(probe: ProbeEntry) -> Json:
    return {
        "executionSuccessful": probe.exit_code in (0, 1),
        "exitCode": probe.exit_code,
        "toolExecutionNotifications": [
            {
                "level": "error" if probe.exit_code else "note",
                "message": {"text": f"probe: {one_line(probe.reason)}"},
                "locations": [{"physicalLocation": {"artifactLocation": _artifact(probe.script)}}],
            }
        ],
    }


def _result(entry: FindingEntry, numbers: dict[str, int], code: FindCode, *, judged: bool) -> Json:
    passed = judged and is_refuted(entry)
    result: Json = {
        "ruleId": entry.rule,
        **({"ruleIndex": numbers[entry.rule]} if entry.rule in numbers else {}),
        "kind": "pass" if passed else "fail",
        "level": "none" if passed else entry.level.value,
        "message": {"text": _text("\n".join([one_line(entry.message) + cell_of(entry.location), *remarks_of(entry)]))},
        "locations": [_location(entry.location, code)],
        "partialFingerprints": {FINGERPRINT: entry.fingerprint},
        "properties": _properties(entry),
    }
    if entry.related:
        result["relatedLocations"] = [
            _related(reason, number, code) for number, reason in enumerate(entry.related, start=1)
        ]
    if entry.fix and entry.fix.edits:
        result["fixes"] = [_fix(entry.fix, entry.location.path)]
    return result


def _suppressed(one: SuppressedEntry, numbers: dict[str, int], code: FindCode, *, judged: bool) -> Json:
    suppression: Json = {"kind": "inSource" if one.comment else "external", "status": "accepted"}
    if one.comment:
        suppression["location"] = _location(one.comment, code)
    if one.reason:
        suppression["justification"] = one_line(one.reason)
    return {**_result(one.finding, numbers, code, judged=judged), "suppressions": [suppression]}


def _properties(entry: FindingEntry) -> Json:
    properties: Json = {"claim": dict(entry.claim), "subject": entry.subject}
    if entry.verdict:
        verdict = entry.verdict
        properties["verdict"] = {
            "outcome": verdict.outcome.value,
            "reason": verdict.reason,
            "measured": dict(verdict.measured),
        }
    if entry.fix:
        properties["fixIsSafe"] = entry.fix.safe
    return {name: value for name, value in properties.items() if value not in (None, {})}


def _location(at: LocationEntry, code: FindCode) -> Json:
    region = _region(at.file_line, at.file_column, at.file_end_line, at.file_end_column)
    if snippet := code(at):
        region["snippet"] = {"text": snippet}
    location: Json = {"physicalLocation": {"artifactLocation": _artifact(at.path), "region": region}}
    if at.cell is not None:
        name = f"cell {at.cell}"
        location["logicalLocations"] = [{"name": name, "fullyQualifiedName": f"{name}, line {at.line}"}]
    return location


def _related(reason: RelatedEntry, number: int, code: FindCode) -> Json:
    text = _text(one_line(reason.note) + cell_of(reason.location)) or reason.role
    return {"id": number, **_location(reason.location, code), "message": {"text": text}}


def _fix(fix: FixEntry, path: str) -> Json:
    warning = "" if fix.safe else " (unsafe fix)"
    change = {"artifactLocation": _artifact(path), "replacements": list(_replacements(fix.edits))}
    return {"description": {"text": _text(one_line(fix.title) + warning)}, "artifactChanges": [change]}


def _replacements(edits: Iterable[EditEntry]) -> Iterator[Json]:
    for edit in edits:
        region = _region(edit.line, edit.column, edit.end_line, edit.end_column)
        yield {"deletedRegion": region, "insertedContent": {"text": edit.text}}


def _region(line: int, column: int, end_line: int, end_column: int) -> Json:
    return {"startLine": line, "startColumn": column, "endLine": end_line, "endColumn": end_column}


def _artifact(path: str) -> Json:
    """A file relative to the root of the repository, or its absolute URI if it is elsewhere."""
    if path == STDIN:
        return {"uri": "stdin"}
    there = Path(absolute(path))
    uri = uri_in(there, repository_root())
    return {"uri": file_uri(there)} if uri is None else {"uri": uri, "uriBaseId": ROOT}


def _text(text: str) -> str:
    return LINK.sub(r"\\[", text)


def rule_objects(pages: Iterable[Page], documentation: str | None = None) -> list[Json]:
    """The descriptors of rules, in order."""
    return [_rule(page, address_of(page.name, documentation)) for page in pages]


def _rule(page: Page, address: str) -> Json:
    return {
        "id": page.name,
        "name": "".join(word.capitalize() for word in page.name.split("-")),
        "shortDescription": {"text": page.manual.title},
        "fullDescription": {"text": " ".join(page.manual.why.split()) or page.manual.title},
        "help": {"text": _help_text(page), "markdown": markdown(page)},
        **({"helpUri": address} if address else {}),
        "defaultConfiguration": {"level": page.level.value},
        "properties": {"tags": ["machine-learning", page.stage], "problem.severity": _problem_severity(page)},
    }


def _problem_severity(page: Page) -> str:
    """The severity of code scanning for a level."""
    return {"note": "recommendation"}.get(page.level.value, page.level.value)


def _help_text(page: Page) -> str:
    sections = (f"{heading}\n\n{text}" for heading, text in page.manual.sections.items())
    return "\n\n".join([page.manual.title, page.manual.why, *sections])


FindCode = Callable[[LocationEntry], str | None]
"""The code at a location; None if the file is not available."""


def code_finder(find_source: FindSource) -> FindCode:
    """Find the code at locations; each file is split into lines once."""

    @cache
    def lines_of(path: str) -> list[str]:
        source = find_source(path)
        return source.file_text.split("\n") if source else []

    def code_at(at: LocationEntry) -> str | None:
        lines = lines_of(at.path)[at.file_line - 1 : at.file_end_line]
        if len(lines) != at.file_end_line - at.file_line + 1:
            return None
        lines[-1] = lines[-1][: at.file_end_column - 1]
        lines[0] = lines[0][at.file_column - 1 :]
        return "\n".join(lines)

    return code_at
