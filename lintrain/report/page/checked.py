"""The page of a check: how much was found of what, and every finding with its code, file by file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from lintrain._version import __version__
from lintrain.check.result import Reported
from lintrain.report.machine.document import ProbeEntry
from lintrain.report.page.findings import findings
from lintrain.report.page.markup import Markup, joined, table, tag, whole_page, with_code
from lintrain.source.written_places import FindSource
from lintrain.text.shown import shown


def checked_page(
    reported: Sequence[Reported],
    find_source: FindSource,
    closing: str,
    probes: Sequence[ProbeEntry] = (),
    unjudged: Sequence[str] = (),
) -> str:
    """The page as a file holds it; `closing` is the line that counts the findings, `unjudged` name files and rules."""
    in_order = sorted(reported, key=lambda one: one.finding.location.path)
    files = groupby(in_order, key=lambda one: one.finding.location.path)
    return whole_page(
        "lintrain check",
        tag("a", "skip to the findings", href="#findings", class_="skip"),
        tag(
            "header",
            tag("p", "lintrain check", class_="where"),
            tag("h1", closing.partition(";")[0]),
            [_probe(probe) for probe in probes],
            [tag("p", with_code(shown(line)), class_="conclusion not-reached") for line in unjudged],
        ),
        tag(
            "main",
            _rules(reported) if reported else None,
            tag("div", [_file(path, list(group), find_source) for path, group in files], id="findings"),
        ),
        tag("footer", tag("p", f"lintrain {__version__}")),
    )


def _probe(probe: ProbeEntry) -> Markup:
    kind = {0: "passed", 1: "failed"}.get(probe.exit_code, "not-reached")
    return tag("p", tag("code", probe.script), " ", with_code(probe.reason), class_=f"conclusion {kind}")


def _rules(reported: Sequence[Reported]) -> Markup:
    counts = Counter((one.finding.rule, one.finding.level) for one in reported)
    rows = [
        (tag("code", rule), level.value, tag("span", str(number), class_="number"))
        for (rule, level), number in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
    return table(("rule", "level", "findings"), rows, caption="how often each mistake was found")


def _file(path: str, reported: Sequence[Reported], find_source: FindSource) -> Markup:
    return tag("section", joined(tag("h2", tag("code", shown(path))), findings(reported, find_source)))
