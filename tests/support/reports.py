"""What a check found, made for tests of reports: a script with characters of every width, and a notebook."""

from __future__ import annotations

from dataclasses import replace

from lintrain.check.result import CheckResult, Crash, FileOutcome, Reported, Silenced
from lintrain.model.finding import Finding, Related
from lintrain.model.fixes import AddImport, Fix, Replace
from lintrain.model.level import Level
from lintrain.model.location import Location
from lintrain.model.verdict import Verdict
from lintrain.source.reading import read_bytes
from lintrain.source.suppression import Suppression
from tests.support.notebooks import notebook

SCRIPT = "a b/träin;50%3B.py"
NOTEBOOK = "n.ipynb"
CODE = """\
import os

raw = load()
x = "😀é"; train(raw, 1)
train(raw, 1)
train(raw, 1)  # lintrain: ignore[raw-dataset] -- rows are ids, [sic]
if raw:
    done(
        raw)
"""
CELLS = ("#md x", "raw = load()", "!ls\ntrain(raw, '😀')")
HOSTILE = "`a]b;c,d:e%0A%` [x](1)\n<b>&\x1b[31m \ud800"

SAYS = {"why": "It ends\nthe run.", "help": "pass `encoded`"}
MADE = Related(Location(SCRIPT, 3, 1, 3, 4), "made here")
MENDED = Fix.of("pass `encoded`", AddImport("math"), Replace(Location(SCRIPT, 4, 17, 4, 20), "math.encoded"), safe=True)


def finding(rule: str, level: Level, location: Location, message: str = "`raw` is raw") -> Finding:
    return Finding(rule, level, location, message, **SAYS, related=(replace(MADE),), subject="raw", facts={"rows": 3})


def outcome() -> CheckResult:
    """Findings of every level, two of them alike; a fix, a verdict of each kind, a silenced one, and a failed rule."""
    at = Location(SCRIPT, 4, 17, 4, 20)
    found = (
        Reported(finding("raw-dataset", Level.ERROR, at), MENDED, Verdict.confirmed("3 of 4 rows", ratio=float("nan"))),
        Reported(finding("raw-dataset", Level.ERROR, Location(SCRIPT, 5, 7, 5, 10))),
        Reported(finding("logits-in-metric", Level.WARNING, Location(SCRIPT, 5, 7, 5, 10), HOSTILE)),
        Reported(
            finding("unused-suppression", Level.NOTE, Location(SCRIPT, 8, 5, 9, 13)),
            None,
            Verdict.refuted("0 of 4 rows"),
        ),
    )
    silenced = Silenced(
        Reported(finding("raw-dataset", Level.ERROR, Location(SCRIPT, 6, 7, 6, 10))),
        Suppression(Location(SCRIPT, 6, 16, 6, 47), ("raw-dataset",), 6, reason="rows are ids, [sic]"),
    )
    script = read_bytes(SCRIPT, CODE.encode())
    book = read_bytes(NOTEBOOK, notebook(*CELLS).encode())
    in_cell = Finding("raw-dataset", Level.ERROR, Location(NOTEBOOK, 5, 7, 5, 10), "`raw` is raw")
    crash = Crash(SCRIPT, "unwell", "ValueError: no\nluck")
    return CheckResult(
        (
            FileOutcome(SCRIPT, script, found, (crash,), (silenced,)),
            FileOutcome(
                NOTEBOOK, book, (Reported(in_cell, Fix.of("mend", Replace(in_cell.location, '"y"'), safe=False)),)
            ),
        )
    )


def line_in_notebook() -> int:
    """The line of the .ipynb file that has the finding's code."""
    return next(number for number, line in enumerate(notebook(*CELLS).split("\n"), start=1) if "train(raw" in line)
