"""The benchmark over the samples of PYSIASSIST counts what it should, on an invented artefact."""

from __future__ import annotations

import csv
import json
import zipfile
from collections import Counter
from dataclasses import astuple, fields
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

from benchmarks.pysiassist.__main__ import main
from benchmarks.pysiassist.checking import Reported
from benchmarks.pysiassist.counting import judge
from benchmarks.pysiassist.samples import Sample, half_of, read_samples
from benchmarks.pysiassist.workbook import read_cells

LOOP = """\
import torch
torch.manual_seed(0)
net = torch.nn.Linear(8, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in torch.load("batches.pt"):
    {clear}
    loss = torch.nn.functional.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
torch.save(net.state_dict(), "net.pt")
"""
WRONG, RIGHT = LOOP.format(clear="pass"), LOOP.format(clear="optimizer.zero_grad()")

NAMESPACE = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def sample(cell: str, has_mistake: str, visible: str, half: str = "work", **given: str) -> Sample:
    answer = {"kind": "", "line": "", "rule": "", "also": "", "why": ""} | given
    return Sample(f"code.xlsx#Samples!{cell}", "3", half, has_mistake, visible, **answer)


MISSED = sample("C2", "yes", "yes", line="8", rule="missing-zero-grad")


def write_workbook(path: Path, cells: dict[str, str]) -> None:
    """A workbook whose one sheet holds these texts; the second half of each has a format of its own."""
    items, rows = "", ""
    for number, (cell, text) in enumerate(cells.items()):
        parts = (text[: len(text) // 2], text[len(text) // 2 :])
        items += "<si>" + "".join(f'<r><t xml:space="preserve">{escape(part)}</t></r>' for part in parts) + "</si>"
        rows += f'<row><c r="{cell}" t="s"><v>{number}</v></c><c r="Z1" t="s"/></row>'
    sheet = f'<sheet name="Samples" r:id="rId7" xmlns:r="{OFFICE}"/>'
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("xl/sharedStrings.xml", f"<sst {NAMESPACE}>{items}</sst>")
        archive.writestr("xl/workbook.xml", f"<workbook {NAMESPACE}><sheets>{sheet}</sheets></workbook>")
        archive.writestr("xl/_rels/workbook.xml.rels", '<R><R Id="rId7" Target="worksheets/one.xml"/></R>')
        archive.writestr("xl/worksheets/one.xml", f"<worksheet {NAMESPACE}>{rows}</worksheet>")


def write_table(path: Path, samples: list[Sample]) -> None:
    with path.open("w", newline="", encoding="utf-8") as table:
        writer = csv.writer(table)
        writer.writerow(field.name for field in fields(Sample))
        writer.writerows(astuple(each) for each in samples)


def run(folder: Path, samples: list[Sample], cells: dict[str, str], *options: str) -> int:
    write_workbook(folder / "code.xlsx", cells)
    write_table(folder / "samples.csv", samples)
    return main([str(folder), *options], folder / "samples.csv")


def test_cells_are_read_as_they_are_stored(tmp_path: Path) -> None:
    write_workbook(tmp_path / "code.xlsx", {"C2": "  if a < 1:_x000D_\n\tb\n", "C5": "c"})
    assert read_cells(tmp_path / "code.xlsx") == {"Samples!C2": "  if a < 1:\n\tb\n", "Samples!C5": "c"}


@pytest.mark.parametrize(
    ("rule", "line", "is_found", "false"),
    [
        ("missing-zero-grad", 8, True, 0),
        ("missing-zero-grad", 12, True, 0),
        ("missing-zero-grad", 13, False, 1),
        ("unscaled-accumulation", 9, True, 0),
        ("broadcast-loss", 3, False, 0),
        ("broadcast-loss", 9, False, 1),
        ("nan-loss", 8, False, 1),
    ],
)
def test_a_mistake_is_found_by_its_rules_at_its_lines(rule: str, line: int, is_found: bool, false: int) -> None:
    judged = sample(
        "C2", "yes", "yes", line="8-12", rule="missing-zero-grad", also="unscaled-accumulation broadcast-loss@3"
    )
    outcome = judge(judged, [Reported(rule, line, "")])
    assert (outcome.is_found, len(outcome.false)) == (is_found, false)


def test_names_that_a_fragment_lacks_are_counted_apart() -> None:
    given = [Reported("undefined-name", 1, "`net`"), Reported("undefined-name", 4, "`out`")]
    outcome = judge(sample("C2", "no", "not-a-mistake", also="undefined-name@4"), given)
    assert outcome.about_the_text == (given[0],)
    assert not outcome.false


@pytest.mark.slow
def test_the_sums_and_the_misses_of_the_half_that_may_be_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = sample("C3", "yes", "yes", half="measure", line="8", rule="missing-zero-grad")
    samples = [MISSED, found, sample("C4", "no", "not-a-mistake"), sample("C5", "no", "not-a-mistake", half="measure")]
    cells = {"C2": RIGHT, "C3": WRONG, "C4": RIGHT, "C5": WRONG}
    assert run(tmp_path, samples, cells, "--json", "--missed") == 1
    printed = json.loads(capsys.readouterr().out)
    keys = ("half", "label", "samples", "visible", "found", "false")
    assert [tuple(line[key] for key in keys) for line in printed["sums"]] == [
        ("work", "mistake", 1, 1, 0, 0),
        ("work", "correct", 1, 0, 0, 0),
        ("measure", "mistake", 1, 1, 1, 0),
        ("measure", "correct", 1, 0, 0, 1),
        ("both", "mistake", 2, 2, 1, 0),
        ("both", "correct", 2, 0, 0, 1),
    ]
    assert [each["path"][-2:] for each in printed["samples"]] == ["C2", "C4"]


@pytest.mark.slow
def test_the_text_names_what_is_missed_and_what_is_false(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    samples = [MISSED, sample("C4", "no", "not-a-mistake"), sample("C9", "no", "not-a-mistake")]
    assert run(tmp_path, samples, {"C2": RIGHT, "C4": WRONG}, "--missed") == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2].startswith("missed: code.xlsx#Samples!C2:8: missing-zero-grad: ")
    assert lines[-1].startswith("false: code.xlsx#Samples!C4:8: missing-zero-grad: gradients of `loss`")
    assert [line.split()[:3] for line in lines[1:-2]] == [["work", "mistake", "1"], ["work", "correct", "1"]]


@pytest.mark.slow
@pytest.mark.parametrize(("pasted", "correct", "code"), [(WRONG, RIGHT, 0), (WRONG, WRONG, 1), (RIGHT, RIGHT, 1)])
def test_the_bounds_hold_if_all_is_found_and_nothing_is_false(
    tmp_path: Path, pasted: str, correct: str, code: int
) -> None:
    samples = [MISSED, sample("C4", "no", "not-a-mistake")]
    assert run(tmp_path, samples, {"C2": pasted, "C4": correct}) == code


def test_every_judgement_is_complete() -> None:
    samples = read_samples()
    assert Counter(each.has_mistake for each in samples) == {"yes": 144, "no": 70}
    assert len({each.path for each in samples}) == len(samples)
    for each in samples:
        assert each.half == half_of(each.path), each.path
        assert each.visible in {"yes", "no", "not-a-mistake"}
        assert each.why, each.path
        assert bool(each.rule) is bool(each.line) is bool(each.kind) is each.is_visible, each.path
        assert all(place.first <= place.last for place in (*each.answers, *each.others)), each.path
