"""The report for people: frames, remarks, widths."""

from __future__ import annotations

import pytest

from lintrain.check.result import Reported
from lintrain.model.finding import Finding, Related
from lintrain.model.fixes import Fix
from lintrain.model.level import Level
from lintrain.model.location import Location
from lintrain.model.verdict import Verdict
from lintrain.report.text.findings import concise, full
from lintrain.report.text.frame import statistics, summary
from lintrain.report.text.style import Style, clip, columns, printable, window, wrap
from lintrain.source.reading import read_bytes
from lintrain.source.source import Source
from tests.support.notebooks import notebook

TEXT = """\
from datasets import load_dataset

raw_datasets = load_dataset("glue", "mnli")
tokenized_datasets = raw_datasets.map(preprocess_function, batched=True, remove_columns=["premise", "hypothesis"])
trainer = Trainer(
    model,
    train_dataset=raw_datasets["train"],
)
"""


def location(source: Source, code: str, nth: int = 0) -> Location:
    found = [(line, text.index(code) + 1) for line, text in enumerate(source.lines, start=1) if code in text]
    line, column = found[nth]
    return Location(source.path, line, column, line, column + len(code))


def finding(at: Location, *reasons: Related, why: str = "", cure: str = "") -> Finding:
    return Finding("raw-dataset", Level.ERROR, at, "`raw` reaches Trainer", why, cure, tuple(reasons))


def report(one: Reported, *sources: Source, width: int = 100) -> list[str]:
    by_path = {source.path: source for source in sources}
    (block,) = full([one], by_path.get, Style(width))
    return block.split("\n")


def test_a_finding_is_drawn_with_its_code_its_reasons_its_cure_and_its_verdict() -> None:
    source = Source("train.py", TEXT)
    one = Reported(
        finding(
            location(source, 'raw_datasets["train"]'),
            Related(location(source, "tokenized_datasets"), "its tokenized copy, not used"),
            Related(location(source, "load_dataset(", 0), "made here, never tokenized"),
            why="Trainer drops the text columns",
        ),
        Fix.of('pass `tokenized_datasets["train"]`', safe=False),
        Verdict.confirmed("no `input_ids` in columns [label, idx]"),
    )
    assert report(one, source, width=100) == [
        "train.py:7:19: error[raw-dataset] `raw` reaches Trainer",
        "  │",
        '3 │ raw_datasets = load_dataset("glue", "mnli")                         made here, never tokenized',
        "4 │ tokenized_datasets = raw_datasets.map(preprocess_function, batch…   its tokenized copy, not used",
        '7 │     train_dataset=raw_datasets["train"],',
        "  │                   ^^^^^^^^^^^^^^^^^^^^^",
        "  = why: Trainer drops the text columns",
        '  = fix: pass `tokenized_datasets["train"]` (fixable with `--fix --unsafe-fixes`)',
        "  = probe: confirmed · no `input_ids` in columns [label, idx]",
    ]


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    source = Source("train.py", TEXT)
    reasons = [Related(location(source, "tokenized_datasets"), "its tokenized copy, which this Trainer does not use")]
    one = Reported(finding(location(source, 'raw_datasets["train"]'), *reasons, why="because " * 30))
    assert max(columns(line) for line in report(one, source, width=width)) <= width


def test_in_a_narrow_terminal_the_note_stands_below_its_line() -> None:
    source = Source("train.py", TEXT)
    one = Reported(
        finding(
            location(source, 'raw_datasets["train"]'),
            Related(location(source, "raw_datasets"), "made here, never tokenized"),
        )
    )
    lines = report(one, source, width=60)
    assert lines[2].startswith('3 │ raw_datasets = load_dataset("glue", "mnli")')
    assert lines[3] == "  │ made here, never tokenized"


def test_carets_stand_below_the_place_behind_wide_characters_and_tabs() -> None:
    source = Source("t.py", "if x:\n\tf('日本', bad)\n")
    lines = report(Reported(finding(location(source, "bad"))), source)
    assert lines[2] == "2 │     f('日本', bad)"
    assert lines[3] == "  │               ^^^"


def test_a_place_far_to_the_right_is_moved_into_view() -> None:
    source = Source("t.py", f"x = [{'0, ' * 100}bad, {'1, ' * 100}]\n")
    lines = report(Reported(finding(location(source, "bad"))), source, width=60)
    start = lines[3].index("^")
    assert lines[2][start : start + 3] == "bad"
    assert lines[3].count("^") == 3
    assert max(map(len, lines)) <= 60


def test_a_place_over_several_lines_says_that_it_goes_on() -> None:
    source = Source("t.py", "x = f(\n    1,\n)\n")
    lines = report(Reported(finding(Location("t.py", 1, 5, 3, 2))), source)
    assert lines[2:4] == ["1 │ x = f(", "  │     ^^ (continues below)"]


def test_characters_that_steer_a_terminal_are_shown_not_obeyed() -> None:
    source = Source("t.py", "x = '\x1b[31m\u202e'; bad\n")
    text = "\n".join(report(Reported(finding(location(source, "bad"))), source))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "␛[31m" in text


def test_a_reason_in_another_file_is_shown_under_its_name() -> None:
    source, other = Source("t.py", "import d\nf(d.raw)\n"), Source("d.py", "raw = load()\n")
    one = Reported(finding(location(source, "d.raw"), Related(location(other, "raw"), "made here")))
    assert report(one, source, other)[1:] == [
        "  │",
        "  │ d.py",
        "1 │ raw = load()   made here",
        "  │ t.py",
        "2 │ f(d.raw)",
        "  │   ^^^^^",
    ]


def test_lines_of_several_cells_are_shown_under_their_cells() -> None:
    source = read_bytes("n.ipynb", notebook("#md x", "raw = load()", "!ls\nf(raw, 1)").encode())
    at = location(source, "f(raw, 1)")
    one = Reported(finding(at, Related(location(source, "raw = load()"), "made here")))
    assert report(one, source) == [
        "n.ipynb:cell 3:2:1: error[raw-dataset] `raw` reaches Trainer (file line 48)",
        "  │",
        "  │ cell 2",
        "1 │ raw = load()   made here",
        "  │ cell 3",
        "2 │ f(raw, 1)",
        "  │ ^^^^^^^^^",
    ]


def test_two_notes_on_one_line_stand_below_each_other() -> None:
    source = Source("t.py", "a = b\nf(a)\n")
    one = Reported(
        finding(location(source, "f(a)"), Related(location(source, "a"), "one"), Related(location(source, "b"), "two"))
    )
    assert report(one, source)[2:4] == ["1 │ a = b   one", "  │         two"]


def test_why_is_said_once_in_a_report() -> None:
    source = Source("train.py", TEXT)
    one = Reported(finding(location(source, "raw_datasets"), why="it hurts"))
    blocks = list(full([one, one], {"train.py": source}.get, Style()))
    assert ["why" in block for block in blocks] == [True, False]


def test_a_finding_without_a_source_has_no_frame() -> None:
    one = Reported(finding(Location("gone.py", 2, 1, 2, 1), cure="save it as UTF-8"))
    assert report(one) == ["gone.py:2:1: error[raw-dataset] `raw` reaches Trainer", "   = fix: save it as UTF-8"]


def test_signs_outside_ascii_are_left_out_where_they_cannot_be_written() -> None:
    source = Source("t.py", "f(a)\n")
    (block,) = full([Reported(finding(location(source, "a")))], {"t.py": source}.get, Style(unicode=False))
    assert block.isascii()


def test_concise_is_one_line_with_place_level_and_rule() -> None:
    source = read_bytes("n.ipynb", notebook("f(a)").encode())
    lines = list(concise([Reported(finding(location(source, "a")))], {"n.ipynb": source}.get, Style()))
    assert lines == ["n.ipynb:cell 1:1:3: error[raw-dataset] `raw` reaches Trainer (file line 20)"]


def many(*levels: Level) -> list[Reported]:
    return [Reported(Finding(f"rule-{level}", level, Location("t.py", 1, 1, 1, 2), "m")) for level in levels]


@pytest.mark.parametrize(
    ("reported", "files", "fixed", "line"),
    [
        ([], 1, 0, "no findings in 1 file"),
        ([], 12, 0, "no findings in 12 files"),
        ([], 1, 2, "2 findings fixed; no findings left in 1 file"),
        (many(Level.ERROR), 1, 0, "1 finding (1 error) in 1 file"),
        (many(Level.NOTE, Level.ERROR, Level.ERROR), 3, 0, "3 findings (2 errors, 1 note) in 1 of 3 files"),
        (many(Level.WARNING), 1, 1, "1 finding fixed; 1 finding (1 warning) in 1 file"),
    ],
)
def test_the_closing_line_counts(reported: list[Reported], files: int, fixed: int, line: str) -> None:
    assert summary(reported, files, fixed) == line


def test_the_closing_line_tells_what_can_be_fixed() -> None:
    at = Location("t.py", 1, 1, 1, 2)
    safe, unsafe = Reported(finding(at), Fix.of("t", safe=True)), Reported(finding(at), Fix.of("t", safe=False))
    assert summary([safe, unsafe], 1).endswith("; fixable: 1 with `--fix`, 1 with `--fix --unsafe-fixes`")
    assert summary([unsafe], 1).endswith("; fixable: 1 with `--fix --unsafe-fixes`")


def test_statistics_count_by_rule_the_most_frequent_first() -> None:
    lines = list(statistics(many(Level.NOTE, *[Level.ERROR] * 10), Style()))
    assert lines == ["10  error    rule-error", " 1  note     rule-note"]


def test_widths_are_those_of_a_terminal() -> None:
    assert columns("日本é") == 5
    assert columns("e\u0301") == 1
    assert clip("日本語", 4) == "日…"
    assert printable("a\tb\x0c") == "a   b␌"
    assert window("0123456789", 8, 9, 6) == ("…6789", 5)
    assert wrap("one two three", 6, 2, 10) == ["one", "two", "three"]
    assert wrap("one two three", 0, 0, 8) == ["one two", "three"]


def test_code_is_not_broken_over_lines_where_it_fits() -> None:
    assert wrap("write `a = b + c`, then `d`", 0, 0, 14) == ["write", "`a = b + c`,", "then `d`"]
    assert wrap("`a much too long piece`", 0, 0, 10) == ["`a much", "too long", "piece`"]
    assert wrap("", 0, 0, 10) == [""]
