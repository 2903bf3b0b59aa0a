"""A few of the hostile scripts; `python -m tests.hostile` probes all 200."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.hostile.scripts import AFTER, BEFORE, CALLS, INSIDE, make_scripts

SLICE = 8


def test_every_part_is_in_some_script() -> None:
    found = {part for script in make_scripts(200) for part in script.parts}
    assert found == {*CALLS, *(part.lines for part in (*BEFORE, *INSIDE, *AFTER))}


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks, and reads /proc")
def test_hostile_scripts_end_as_documented_and_leave_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.hostile", str(SLICE)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    last = json.loads(done.stdout.splitlines()[-1])
    assert (last["scripts"], last["surprises"]) == (SLICE, 0), done.stdout + done.stderr
