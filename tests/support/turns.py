"""Cases that take turns: of many alike, a run of the tests takes a few, and other ones at another commit.

With `--turns`, as `tools/dev.py test` runs pytest, a test marked `turns(one_in=3)` runs a third of its cases, at least
one. Without the option pytest runs all of them, and so does `tools/dev.py test --more`.

The choice is the same on every machine and in every worker. `LINTRAIN_TESTS_TURN` names a commit whose cases are run
again, and the header of pytest prints it.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from lintrain._version import __version__

ROOT = Path(__file__).parents[2]
TURN = "LINTRAIN_TESTS_TURN"
MARK = "turns"


def set_turn() -> str:
    """The commit whose cases are run; it is left in the environment for the workers."""
    return os.environ.setdefault(TURN, _commit() or __version__)


def whose_turn(names: Iterable[str], count: int, turn: str) -> list[str]:
    """So many of the cases as are run at a commit, in the order that they have."""
    listed = [*names]
    chosen = sorted(listed, key=lambda name: hashlib.sha256(f"{turn} {name}".encode()).digest())[:count]
    return [name for name in listed if name in chosen]


def waiting(items: Iterable[pytest.Item], turn: str) -> set[pytest.Item]:
    """Of the tests that take turns, the cases whose turn it is not at a commit."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker(MARK):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return {item for alike in cases.values() for item in _waiting_of_one(alike, turn)}


def _waiting_of_one(alike: list[pytest.Item], turn: str) -> list[pytest.Item]:
    mark = alike[0].get_closest_marker(MARK)
    assert mark is not None
    count = -(-len(alike) // int(mark.kwargs["one_in"]))
    run = set(whose_turn((item.nodeid for item in alike), count, turn))
    return [item for item in alike if item.nodeid not in run]


def _commit() -> str | None:
    """The commit that is checked out, or None in a source archive."""
    asked = ["git", "rev-parse", "--short=12", "HEAD"]
    try:
        done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:  # no git on this machine
        return None
    return done.stdout.strip() or None
