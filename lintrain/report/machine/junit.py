"""A JUnit report: a suite for each file, a failed test for each finding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from pathlib import PurePath
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from lintrain.report.machine.document import CheckReport, CrashEntry, FindingEntry, ProbeEntry, is_refuted
from lintrain.report.machine.wording import from_root, message_of, one_line, remarks_of

COULD_NOT_JUDGE = 3


def junit(report: CheckReport) -> str:
    """The report as XML; a refuted finding is a passed test."""
    root = Element("testsuites", name="lintrain")
    for path, entries in groupby(sorted(report.findings, key=_location), key=lambda entry: entry.location.path):
        _suite_of_file(root, path, entries, judged=bool(report.probes))
    if report.crashes:
        suite = SubElement(root, "testsuite", name="lintrain crashed")
        for crash in report.crashes:
            _crash(suite, crash)
    if report.unjudged:
        suite = SubElement(root, "testsuite", name="not judged")
        for one in report.unjudged:
            case = SubElement(suite, "testcase", name=f"{one.rule}: {one_line(one.path)}", classname="lintrain")
            SubElement(case, "skipped", message=one_line(one.reason))
    if report.probes:
        suite = SubElement(root, "testsuite", name="lintrain probe")
        for probe in report.probes:
            _probe(suite, probe)
    if not len(root):
        SubElement(SubElement(root, "testsuite", name="lintrain"), "testcase", name="no findings", classname="lintrain")
    _count(root)
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode")


def _location(entry: FindingEntry) -> tuple[str, int, int, str]:
    return entry.location.path, entry.location.file_line, entry.location.file_column, entry.rule


def _suite_of_file(root: Element, path: str, entries: Iterable[FindingEntry], *, judged: bool) -> None:
    shown = one_line(from_root(path))
    suite = SubElement(root, "testsuite", name=shown)
    names = Counter[str]()
    for entry in entries:
        name = f"{entry.rule}: {one_line(entry.message)}"
        names[name] += 1
        case = SubElement(
            suite,
            "testcase",
            name=name if names[name] == 1 else f"{name} ({names[name]})",
            classname=PurePath(shown).with_suffix("").as_posix(),
            file=shown,
            line=str(entry.location.file_line),
            column=str(entry.location.file_column),
        )
        where = f"{shown}:{entry.location.file_line}:{entry.location.file_column}"
        text = "\n".join([f"{where}: {entry.level.value}[{entry.rule}] {message_of(entry)}", *remarks_of(entry)])
        if judged and is_refuted(entry):
            SubElement(case, "system-out").text = text
        else:
            SubElement(case, "failure", message=message_of(entry), type=entry.level.value).text = text


def _crash(suite: Element, crash: CrashEntry) -> None:
    case = SubElement(suite, "testcase", name=f"{crash.rule}: {one_line(crash.path)}", classname="lintrain")
    SubElement(case, "error", message=one_line(crash.error), type=crash.rule)


def _probe(suite: Element, probe: ProbeEntry) -> None:
    case = SubElement(suite, "testcase", name=one_line(probe.script), classname="lintrain.probe")
    reason = one_line(probe.reason)
    match probe.exit_code:
        case 0:
            SubElement(case, "system-out").text = reason
        case code if code == COULD_NOT_JUDGE:
            SubElement(case, "skipped", message=reason)
        case _:
            SubElement(case, "failure", message=reason, type="probe")


def _count(root: Element) -> None:
    """Write the number of tests, failures, errors and skipped tests on every suite and on the whole."""
    for part in (*root, root):
        part.set("tests", str(len(list(part.iter("testcase")))))
        for kind, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            part.set(name, str(len(list(part.iter(kind)))))
