"""Cases that take turns: of many alike, a run of the tests takes a few, and other ones at another commit.

The choice is the same on every machine and in every worker. `LINTRAIN_TESTS_TURN` names a commit whose cases are run
again, and the header of pytest prints it; `tools/dev.py test --more` runs all cases.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from lintrain._version import __version__

ROOT = Path(__file__).parents[2]
TURN = "LINTRAIN_TESTS_TURN"


def set_turn() -> str:
    """The commit whose cases are run; it is left in the environment for the workers."""
    return os.environ.setdefault(TURN, _commit() or __version__)


def whose_turn(names: Iterable[str], count: int, turn: str) -> list[str]:
    """So many of the cases as are run at a commit, in the order that they have."""
    listed = [*names]
    chosen = sorted(listed, key=lambda name: hashlib.sha256(f"{turn} {name}".encode()).digest())[:count]
    return [name for name in listed if name in chosen]


def _commit() -> str | None:
    """The commit that is checked out, or None in a source archive."""
    asked = ["git", "rev-parse", "--short=12", "HEAD"]
    try:
        done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:  # no git on this machine
        return None
    return done.stdout.strip() or None
