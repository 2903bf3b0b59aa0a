"""The benchmark of runs alone: one probe of each mutant says what it shows alone and together with the text."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from benchmarks.accuracy import alone
from benchmarks.accuracy.code import Code
from benchmarks.accuracy.mutants import FOLDER
from lintrain.model.finding import Finding
from lintrain.model.level import Level
from lintrain.model.location import Location

SCRIPT = FOLDER / "scripts" / "loop" / "letters_lstm.py"
RULE = "wrong-step-order"


def probing(monkeypatch: pytest.MonkeyPatch, found: int, outcome: str) -> None:
    """Let probes of a mutant find its mistake at a line alone, and judge that of the text with an outcome."""

    def probed(_: object, code: Code, text: str, _also: str = "") -> tuple[list[Finding], Any]:
        if text == code.text:
            return [], {"reason": "nothing confirmed", "findings": []}
        location = {"line": 39, "path": SCRIPT.name}
        verdict = {"outcome": outcome, "reason": "measured"}
        shown = Finding(RULE, Level.ERROR, Location(SCRIPT.name, found, 1, found, 5), "message", "why", "fix")
        return [shown], {"reason": "", "findings": [{"rule": RULE, "location": location, "verdict": verdict}]}

    monkeypatch.setattr(alone, "build", lambda: None)
    monkeypatch.setattr(alone, "Prober", lambda _: nullcontext())
    monkeypatch.setattr(alone, "_probed", probed)


@pytest.mark.parametrize(
    ("found", "outcome", "is_good", "said"),
    [
        (39, "confirmed", True, "1 of 1 mutants confirmed\ntogether with the text: 1 confirmed"),
        (38, "confirmed", False, "0 of 1 mutants confirmed\ntogether with the text: 1 confirmed"),
        (39, "refuted", False, "1 of 1 mutants confirmed\ntogether with the text: 1 refuted"),
        (39, "refuted", False, f"{RULE}: together with the text: refuted: measured"),
    ],
    ids=["both", "misplaced alone", "refuted", "named"],
)
def test_one_probe_serves_both_questions(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    found: int,
    outcome: str,
    is_good: bool,
    said: str,
) -> None:
    probing(monkeypatch, found, outcome)
    assert alone.probe_all_alone([Path(SCRIPT)], [RULE], everything=True, jobs=1) is is_good
    assert said in capsys.readouterr().out
