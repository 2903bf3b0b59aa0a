"""A report for programs in the requested format."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lintrain.report.machine.document import CheckReport, as_json, as_json_lines, whys_of
from lintrain.rulebook import RuleFile
from lintrain.source.source import FindSource
from lintrain.text import escaped_json, escaped_xml, for_terminal, shown

WITH_EDITS = frozenset({"agent", "json", "json-lines", "rdjson", "sarif"})
"""Formats that contain the edits of fixes."""


def program_text(
    name: str,
    report: CheckReport,
    find_source: FindSource,
    rules: Sequence[RuleFile],
    documentation: str | None = None,
) -> str:
    """The report as text; the module of a format is imported when it is used.

    `documentation` is the address of the documentation site that links to rules start with.
    """
    match name:
        case "agent":
            from lintrain.report.machine.agent import agent_report

            return for_terminal(agent_report(report, find_source))
        case "json":
            return escaped_json(as_json(report, whys_of(rules, report.named))) + "\n"
        case "json-lines":
            return escaped_json(as_json_lines(report))
        case "sarif":
            from lintrain.report.machine.sarif import sarif
            from lintrain.report.text.pages import pages

            return escaped_json(sarif(report, find_source, pages(rules), documentation)) + "\n"
        case "rdjson":
            from lintrain.report.machine.ci_logs import rdjson

            return escaped_json(rdjson(report, find_source, documentation)) + "\n"
        case "junit":
            from lintrain.report.machine.ci_logs import junit

            return escaped_xml(junit(report)) + "\n"
        case "gitlab":
            from lintrain.report.machine.ci_logs import gitlab

            return escaped_json(gitlab(report)) + "\n"
        case _:
            return _lines(name, report)


def _lines(name: str, report: CheckReport) -> str:
    match name:
        case "github":
            from lintrain.report.machine.ci_logs import github

            return _text(github(report))
        case "azure":
            from lintrain.report.machine.ci_logs import azure

            return _text(azure(report))
        case "pylint":
            from lintrain.report.machine.ci_logs import pylint

            return _text(pylint(report))
        case _:
            raise ValueError(f"unknown format `{name}`")


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{shown(line)}\n" for line in lines)
