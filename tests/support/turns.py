"""Cases that take turns: of many alike, a run of the tests takes a few, and other ones at another commit.

With `--turns`, as `tools/dev.py test` runs pytest, a test marked `turns(one_in=3)` runs a third of its cases, at least
one. The tests of a file that are marked `turns(one_in=3, of="file")`, each or by its `pytestmark`, take turns with one
another: they run scripts along paths that are alike. `turns(one_in=1)` on a test keeps it at every commit. Without the
option pytest runs all of them, and so does `tools/dev.py test --more`.

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
FILE = "file"


def set_turn() -> str:
    """The commit whose cases are run; it is left in the environment for the workers."""
    return os.environ.setdefault(TURN, _commit() or __version__)


def whose_turn(names: Iterable[str], count: int, turn: str) -> list[str]:
    """So many of the cases as are run at a commit, in the order that they have."""
    listed = [*names]
    chosen = sorted(listed, key=lambda name: hashlib.sha256(f"{turn} {name}".encode()).digest())[:count]
    return [name for name in listed if name in chosen]


def waiting(items: Iterable[pytest.Item], turn: str) -> set[pytest.Item]:
    """Of the tests that take turns, those whose turn it is not at a commit."""
    alike: dict[str, list[pytest.Item]] = {}
    for item in items:
        mark = item.get_closest_marker(MARK)
        if mark is not None:
            alike.setdefault(item.nodeid.partition("::" if mark.kwargs.get("of") == FILE else "[")[0], []).append(item)
    return {item for group in alike.values() for item in _waiting_of(group, turn)}


def _waiting_of(alike: list[pytest.Item], turn: str) -> list[pytest.Item]:
    mark = alike[0].get_closest_marker(MARK)
    assert mark is not None
    cases: dict[str, list[pytest.Item]] = {}
    for item in alike:
        cases.setdefault(_shared_run(item) or item.nodeid, []).append(item)
    run = set(whose_turn(cases, -(-len(cases) // int(mark.kwargs["one_in"])), turn))
    return [item for case, together in cases.items() if case not in run for item in together]


def _shared_run(item: pytest.Item) -> str | None:
    """The fixture that is made once for a file's tests: to leave out one of the tests that look at it saves nothing."""
    named = getattr(item, "fixturenames", ())
    found = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
    file = item.nodeid.partition("::")[0]
    made = [name for name in named for each in found.get(name, ()) if (each.scope, each.baseid) == ("module", file)]
    return made[0] if made else None


def _commit() -> str | None:
    """The commit that is checked out, or None in a source archive."""
    asked = ["git", "rev-parse", "--short=12", "HEAD"]
    try:
        done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:  # no git on this machine
        return None
    return done.stdout.strip() or None
