"""The tiny assets are the same wherever they are built."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import build_fixtures
from tools.build_fixtures import build

ROOT = Path(__file__).parent.parent
VOLATILE = {"state.json", "stamp.txt"}
"""`state.json` of a saved DatasetDict holds a fingerprint that the library draws at random."""


def contents(folder: Path) -> dict[str, str]:
    # Libraries that other tests load make folders in the cache of the hub, and remove them: `rglob` would stumble.
    every = (Path(at) / name for at, _, names in os.walk(folder) for name in names)
    kept = (path for path in every if path.is_file() and path.name not in VOLATILE)
    left_by_use = ("__pycache__", ".lock", "cache-", "metrics/glue/default", "hub/metrics")
    return {
        name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in kept
        if not any(part in (name := path.relative_to(folder).as_posix()) for part in left_by_use)
    }


@pytest.mark.slow
def test_two_builds_give_the_same_models_and_data(assets: Path, tmp_path: Path) -> None:
    again = tmp_path / "built"
    subprocess.run([sys.executable, "-m", "tools.build_fixtures", str(again)], cwd=ROOT, check=True)
    first, second = contents(assets), contents(again)
    assert {name for name in second if first.get(name) != second[name]} == set()


def test_what_is_up_to_date_is_not_built_again(assets: Path) -> None:
    assert build(assets) is False


@pytest.mark.libraries
def test_another_version_of_transformers_makes_the_assets_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    here = build_fixtures.stamp(None)
    monkeypatch.setattr(build_fixtures, "version", lambda package: f"another {package}")
    assert build_fixtures.stamp(None) != here
