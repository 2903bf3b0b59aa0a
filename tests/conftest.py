"""What every test stands on: the tiny assets, and an environment in which the hub's names mean them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tools.build_fixtures import BUILT, offline_environment  # noqa: E402 - found through the line above

os.environ.update(offline_environment())
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["LINTRAIN_CACHE_DIR"] = tempfile.mkdtemp(prefix="lintrain-tests-")  # not the user's own
os.environ["KERAS_BACKEND"] = "torch"


@pytest.fixture(scope="session")
def assets() -> Path:
    """The folder of tiny models, tokenizers, data sets and metrics, built when it is not there."""
    subprocess.run([sys.executable, "-m", "tools.build_fixtures"], cwd=ROOT, check=True, capture_output=True)
    return BUILT
