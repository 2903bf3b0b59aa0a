"""Every diagnosis that users ask for: its command shows the mistake, and says nothing of the sound twin."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.diagnoses.reading import Diagnosis, Part, diagnoses
from tests.support.probing import WARM_PYTHON, Probed, command, path_for_lintrain, warm_option

HEADLINE = re.compile(r"^\S+:\d+(?::\d+)?: (?:error|warning|note)\[([a-z0-9-]+)\]", re.MULTILINE)
CONFIRMED = re.compile(r"= probe: confirmed")
FINDING_MISTAKES = 1

pytestmark = [pytest.mark.slow, pytest.mark.libraries, pytest.mark.usefixtures("warm", "assets")]


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    path_for_lintrain(monkeypatch)
    monkeypatch.setenv("COLUMNS", "400")


@pytest.mark.turns(one_in=3)
@pytest.mark.parametrize("diagnosis", diagnoses(), ids=lambda diagnosis: diagnosis.name)
def test_the_command_shows_the_mistake_and_leaves_the_sound_twin(diagnosis: Diagnosis, tmp_path: Path) -> None:
    planted = report_on(diagnosis, diagnosis.planted, tmp_path / "planted")
    sound = report_on(diagnosis, diagnosis.sound, tmp_path / "sound")
    assert lacking(planted, diagnosis.planted) == [], planted.out + planted.err
    if diagnosis.planted.rule:
        assert planted.code == FINDING_MISTAKES, planted.out
        assert diagnosis.planted.rule in found_in(planted, diagnosis), planted.out
    assert found_in(sound, diagnosis) == [], sound.out
    assert lacking(sound, diagnosis.sound) == [], sound.out + sound.err
    own = set(diagnosis.planted.texts) - set(diagnosis.sound.texts)
    assert [text for text in own if folded(text) in folded(sound.out)] == [], sound.out


def report_on(diagnosis: Diagnosis, part: Part, folder: Path) -> Probed:
    """What the command prints about a script in a folder of its own."""
    folder.mkdir()
    (folder / "train.py").write_text(part.script)
    name, *words = diagnosis.command
    if diagnosis.trains:
        # The warm Python runs a script as its own where no probe asks for it.
        python = os.environ.get(WARM_PYTHON, sys.executable)
        done = subprocess.run([python, *words], cwd=folder, capture_output=True, text=True, check=False)
        return Probed(done.returncode, done.stdout + done.stderr, "")
    return command(folder, name, *(() if diagnosis.checks_text else warm_option()), *words)


def lacking(report: Probed, part: Part) -> list[str]:
    """The texts that a report had to contain and does not."""
    return [text for text in part.texts if folded(text) not in folded(report.out)]


def found_in(report: Probed, diagnosis: Diagnosis) -> list[str]:
    """The rules that a report names: of a probe, those that the run confirms."""
    pieces = re.split(r"(?=^\S+:\d+(?::\d+)?: (?:error|warning|note)\[)", report.out, flags=re.MULTILINE)
    named = [(HEADLINE.match(piece), piece) for piece in pieces]
    return [found[1] for found, piece in named if found and (diagnosis.checks_text or CONFIRMED.search(piece))]


def folded(text: str) -> str:
    """A text with its spaces, lines and frames as single spaces."""
    return " ".join(re.sub(r"[│┃]", " ", text).split())
