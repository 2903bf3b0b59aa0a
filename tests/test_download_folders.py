"""The folders for downloads are there while a probe runs, and what it has made and left empty is removed."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from lintrain.runtime.parent.download_folders import download_folders

VARIABLES = ("HF_HOME", "HF_HUB_CACHE", "HF_XET_CACHE", "HF_DATASETS_CACHE", "TORCH_HOME")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without caches."""
    for name in (*VARIABLES, "HUGGINGFACE_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_folders_that_stay_empty_are_removed(home: Path) -> None:
    with download_folders():
        assert (home / "cache" / "huggingface" / "datasets").is_dir()
    assert not [*home.iterdir()]


def test_folders_that_a_script_wrote_to_stay(home: Path) -> None:
    with download_folders():
        (home / "cache" / "huggingface" / "hub" / "model").write_text("weights")
    assert [*(home / "cache" / "huggingface").iterdir()] == [home / "cache" / "huggingface" / "hub"]


def test_a_probe_keeps_folders_that_another_one_made(home: Path) -> None:
    """The second probe finds the folders, empty; the kernel allows its script these and no later ones."""
    with ExitStack() as second:
        with download_folders():
            second.enter_context(download_folders())
        folder = home / "cache" / "huggingface" / "datasets"
        assert folder.is_dir()
        (folder / "rows").write_text("1")
