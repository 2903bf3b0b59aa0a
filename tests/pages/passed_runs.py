"""Which real runs of a page have passed before, with everything that they rest on as it is now.

A run rests on the rule's file, lintrain's code, the code that assembles and judges pages, the tiny models, and the
installed versions: their digest names an empty file in `build/passed-pages`. Nothing is taken from there in CI, and a
clean clone has none.
"""

from __future__ import annotations

import importlib.metadata
import os
import sys
from functools import cache
from hashlib import sha256
from pathlib import Path

from lintrain.knowledge.tables import COVERED_PACKAGES, REMOVED_FROM
from lintrain.rulebook import RuleFile

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "passed-pages"
RESTS_ON = ("lintrain", "tests/pages", "tests/support", "tools/build_fixtures.py", "tools/fixture_assets")


def has_passed(rule: RuleFile, test: str) -> bool:
    """Whether this test of this rule's page has passed with the same code, versions and models."""
    return "CI" not in os.environ and _file_of(rule, test).is_file()


def note_pass(rule: RuleFile, test: str) -> None:
    """Remember that the test has passed."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    _file_of(rule, test).touch()


def _file_of(rule: RuleFile, test: str) -> Path:
    parts = [test.encode(), str(rule.path).encode(), rule.path.read_bytes(), _surroundings()]
    return FOLDER / sha256(b"\0".join(parts)).hexdigest()


@cache
def _surroundings() -> bytes:
    """A digest of what all pages rest on."""
    digest = sha256(sys.version.encode())
    for package in (*COVERED_PACKAGES, *REMOVED_FROM):
        digest.update(f"{package} {importlib.metadata.version(package)}\n".encode())
    for path in files_it_rests_on():
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.digest()


def files_it_rests_on() -> list[Path]:
    """The files of this repository that all pages rest on."""
    found = (
        path for name in RESTS_ON for path in ((ROOT / name).rglob("*") if (ROOT / name).is_dir() else [ROOT / name])
    )
    return sorted(path for path in found if path.is_file() and "__pycache__" not in path.parts)
