"""The forms of a report for people: lists, and the page of a check."""

from __future__ import annotations

import pytest

from lintrain.report.machine.document import ProbeEntry
from lintrain.report.page import markup
from lintrain.report.page.findings import checked_page
from lintrain.report.text.findings import people_blocks
from lintrain.report.text.style import Style
from tests.support.reports import NOTEBOOK, SCRIPT, line_in_notebook, outcome
from tests.test_report_page import Elements


def lines(name: str) -> list[str]:
    blocks, between = people_blocks(name, outcome().reported, outcome().sources.get, Style())
    return between.join(blocks).split("\n")


def test_grouped_lists_the_findings_of_a_file_under_its_name() -> None:
    assert [line for line in lines("grouped") if not line.startswith("<b>")] == [
        f"{SCRIPT}:",
        "  4:17  error[raw-dataset] `raw` is raw (confirmed)",
        "  5:7   error[raw-dataset] `raw` is raw",
        "  5:7   warning[logits-in-metric] `a]b;c,d:e%0A%` [x](1)",
        "  8:5   note[unused-suppression] `raw` is raw (refuted)",
        "",
        f"{NOTEBOOK}:",
        f"  cell 3:2:7  error[raw-dataset] `raw` is raw (file line {line_in_notebook()})",
    ]


@pytest.mark.parametrize("name", ["concise", "full", "grouped"])
def test_of_a_notebook_the_cell_and_the_line_of_the_file_are_named(name: str) -> None:
    (line,) = [line for line in lines(name) if "cell 3:2:7" in line]
    assert line.endswith(f"(file line {line_in_notebook()})")


def page(*probes: ProbeEntry) -> str:
    return checked_page(outcome().reported, outcome().sources.get, "5 findings in 2 files; fixable: 1", probes)


def test_the_page_of_a_check_is_whole_asks_nobody_and_shows_text_as_text() -> None:
    text = page(ProbeEntry("<train>.py", 1, "`lr` is <big>"))
    elements = Elements(text)
    assert elements.open == []
    assert ("content", markup.policy_for(markup.SCRIPT.read_text())) in elements.attributes
    assert [value for name, value in elements.attributes if name in ("src", "action") or name.startswith("on")] == []
    links = [value or "" for name, value in elements.attributes if name == "href"]
    assert len(links) > 5
    assert {link.removeprefix("#") for link in links} <= {value for name, value in elements.attributes if name == "id"}
    assert elements.names.count("script") == 1
    assert {"train", "big", "b"}.isdisjoint(elements.names)
    assert "\x1b" not in text
    text.encode()


def test_the_page_of_a_check_counts_the_rules_and_shows_every_finding_under_its_file() -> None:
    text = page()
    assert "<h1>5 findings in 2 files</h1>" in text
    assert text.count('<details class="finding') == 5
    assert text.index("><code>a b/träin") < text.index(f"><code>{NOTEBOOK}</code></h2>")
    assert '<mark class="finding-mark">raw</mark>' in text
    badges = ("✗ confirmed", "✗ error", "! warning", "✓ refuted")
    assert [badge for badge in badges if badge not in text] == []
    assert "<td><code>raw-dataset</code></td><td>error</td>" in text


def test_a_page_of_nothing_says_so() -> None:
    text = checked_page([], lambda _: None, "no findings in 3 files")
    assert "<h1>no findings in 3 files</h1>" in text
    assert "<details" not in text
