"""JSON reports without nulls and repeated texts, and the whole documents again.

    written = compact(asdict(report), whys)    # what `--output-format json` writes
    expanded(written, whys)                    # every key, as `CheckReport` has it

A key with null, an empty text or an empty list is absent. So is what another key says: the end of a location on one
line, the `file_…` fields of a script, the path of a related location in the file of its finding, a `help` that is the
title of the fix, and a `why` that is the first paragraph of the rule's page (`whys`, by rule).
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, cast

from lintrain.model.level import Level

Json = dict[str, Any]  # Any: a JSON value

SAME_AS = {
    "end_line": "line",
    "file_line": "line",
    "file_column": "column",
    "file_end_line": "end_line",
    "file_end_column": "end_column",
}
"""Fields of a location that are absent if they have the value of another one; in the order in which they are filled."""

DEFAULTS: Mapping[str, Any] = {"why": "", "help": "", "related": [], "subject": None, "claim": {}, "fix": None}
MORE_DEFAULTS: Mapping[str, Any] = {"verdict": None, "fingerprint": ""}
COUNTS = ("suppressed", "fixed", "known")
REPORT_DEFAULTS: Mapping[str, Any] = {"crashes": [], "suppressed": [], "sources": None, "probes": [], "unjudged": []}

MAY_BE_ABSENT = {
    "LocationEntry": ("path", "cell", *SAME_AS),
    "RelatedEntry": ("role",),
    "FindingEntry": (*DEFAULTS, *MORE_DEFAULTS),
    "FixEntry": ("edits",),
    "EditEntry": ("end_line", "end_column", "text"),
    "VerdictEntry": ("measured",),
    "SuppressedEntry": ("comment", "reason"),
    "Summary": ("levels", "rules", *COUNTS),
    "CheckReport": tuple(REPORT_DEFAULTS),
}
"""The keys that a schema does not require, by definition."""


def compact(report: Json, whys: Mapping[str, str]) -> Json:
    """A report without what may be absent."""
    written = {**report, "findings": [compact_finding(one, whys) for one in report["findings"]]}
    written["suppressed"] = [_compact_suppressed(one, whys) for one in report.get("suppressed") or ()]
    summary = {name: value for name, value in report["summary"].items() if value or name not in COUNTS}
    written["summary"] = {name: value for name, value in summary.items() if name not in ("levels", "rules")}
    return {name: value for name, value in written.items() if not _is_empty(value) or name == "findings"}


def compact_finding(finding: Json, whys: Mapping[str, str]) -> Json:
    """A finding without what may be absent."""
    location = finding["location"]
    implied: Json = {"why": whys.get(finding["rule"], ""), "help": _title_of(finding["fix"])}
    written = {name: value for name, value in finding.items() if not _is_empty(value) and implied.get(name) != value}
    if implied["why"] and not finding["why"]:
        written["why"] = ""
    written["location"] = _compact_location(location)
    if related := finding["related"]:
        written["related"] = [_compact_related(one, location["path"]) for one in related]
    if fix := finding["fix"]:
        written["fix"] = _compact_fix(fix)
    if verdict := finding["verdict"]:
        written["verdict"] = {name: value for name, value in verdict.items() if not _is_empty(value)}
    return written


def expanded(report: Json, whys: Mapping[str, str]) -> Json:
    """A report with every key; unknown ones stay. Raises LookupError or TypeError for what is no report."""
    findings = [expanded_finding(one, whys) for one in report["findings"]]
    whole: Json = {**_copied(REPORT_DEFAULTS), **report, "findings": findings}
    whole["suppressed"] = [_expanded_suppressed(one, whys) for one in whole["suppressed"]]
    counted = {"levels": _counted(findings, "level"), "rules": _counted(findings, "rule")}
    whole["summary"] = {**counted, **dict.fromkeys(COUNTS, 0), **whole["summary"]}
    return whole


def expanded_finding(finding: Json, whys: Mapping[str, str]) -> Json:
    """A finding with every key."""
    location = _expanded_location(finding["location"], "")
    path = location["path"]
    implied: Json = {"why": whys.get(finding["rule"], ""), "help": _title_of(finding.get("fix"))}
    whole: Json = {**_copied(DEFAULTS), **_copied(MORE_DEFAULTS), **implied, **finding}
    whole["location"] = location
    whole["related"] = [
        {"role": "", **one, "location": _expanded_location(one["location"], path)} for one in whole["related"]
    ]
    if fix := whole["fix"]:
        edits = [
            {"text": "", "end_line": one["line"], "end_column": one["column"], **one} for one in fix.get("edits", ())
        ]
        whole["fix"] = {**fix, "edits": edits}
    if verdict := whole["verdict"]:
        whole["verdict"] = {"measured": {}, **verdict}
    return whole


def without_nulls(value: object) -> Any:
    """A JSON value without null in its objects, for evidence: what was not measured is absent."""
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, object]", value)
        return {name: without_nulls(inner) for name, inner in entries.items() if inner is not None}
    if isinstance(value, list | tuple):
        return [without_nulls(inner) for inner in cast("list[object]", value)]
    return value


def _title_of(fix: Json | None) -> str:
    return str(fix["title"]) if fix else ""


def _counted(findings: Iterable[Json], name: str) -> dict[str, int]:
    levels = {level.value: 0 for level in Level} if name == "level" else {}
    return {**levels, **dict(sorted(Counter(str(one[name]) for one in findings).items()))}


def _is_empty(value: object) -> bool:
    return value is None or value == "" or (isinstance(value, list | tuple | dict) and not value)


def _compact_location(at: Json, path: str = "") -> Json:
    written = {name: value for name, value in at.items() if value is not None and at[SAME_AS.get(name, name)] != value}
    same = {name: at[name] for name in ("path", "cell", "line", "column", "end_column") if at.get(name) is not None}
    if same["path"] == path:
        del same["path"]
    return {**same, **written}


def _expanded_location(at: Json, path: str) -> Json:
    whole: Json = {"path": path, "cell": None, **at}
    for name, other in SAME_AS.items():
        whole.setdefault(name, whole[other])
    return whole


def _compact_related(one: Json, path: str) -> Json:
    role = {"role": one["role"]} if one["role"] else {}
    return {"location": _compact_location(one["location"], path), "note": one["note"], **role}


def _compact_fix(fix: Json) -> Json:
    edits = [_compact_edit(edit) for edit in fix["edits"]]
    return {"title": fix["title"], "safe": fix["safe"], **({"edits": edits} if edits else {})}


def _compact_edit(edit: Json) -> Json:
    same = {"end_line": edit["line"]}
    if edit["end_line"] == edit["line"]:
        same["end_column"] = edit["column"]
    return {name: value for name, value in edit.items() if value != "" and same.get(name) != value}


def _compact_suppressed(one: Json, whys: Mapping[str, str]) -> Json:
    written: Json = {"finding": compact_finding(one["finding"], whys)}
    if one["comment"]:
        written["comment"] = _compact_location(one["comment"], one["finding"]["location"]["path"])
    return {**written, **({"reason": one["reason"]} if one["reason"] else {})}


def _expanded_suppressed(one: Json, whys: Mapping[str, str]) -> Json:
    finding = expanded_finding(one["finding"], whys)
    comment = one.get("comment")
    at = _expanded_location(comment, finding["location"]["path"]) if comment else None
    return {"reason": "", **one, "finding": finding, "comment": at}


def _copied(defaults: Mapping[str, Any]) -> Json:
    """The defaults, each list and dictionary a new one."""
    return copy.deepcopy(dict(defaults))
