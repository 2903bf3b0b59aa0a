"""A script that fills the disk of downloads, or shared memory, is ended before others feel it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lintrain.runtime.parent import remains
from lintrain.runtime.parent.environment import Room


class Usage:
    def __init__(self, free: int) -> None:
        self.free = free


@pytest.fixture
def disks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, int]:
    free = {str(tmp_path): 100 * 2**30, str(remains.SHARED_MEMORY): 4 * 2**30}
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(free.get(str(folder), 50 * 2**30)))
    return free


def test_a_disk_that_fills_up_is_named(disks: dict[str, int], tmp_path: Path) -> None:
    looked_at = Room([str(tmp_path), str(tmp_path / "missing")])
    assert looked_at.lack() == ""
    disks[str(tmp_path)] = 20 * 2**30
    assert looked_at.lack() == ""
    disks[str(tmp_path)] = 9 * 2**30
    assert looked_at.lack() == f"{tmp_path} has 9.0 GiB left of 100.0"


@pytest.mark.skipif(not remains.SHARED_MEMORY.is_dir(), reason="only Linux has a folder of shared memory")
def test_shared_memory_that_fills_up_is_named(disks: dict[str, int]) -> None:
    looked_at = Room([])
    disks[str(remains.SHARED_MEMORY)] = 2**20
    assert "/dev/shm has 0.0 GiB left of 4.0" in looked_at.lack()


def test_a_disk_that_was_full_at_the_start_ends_nothing(disks: dict[str, int], tmp_path: Path) -> None:
    disks[str(tmp_path)] = 0
    assert Room([str(tmp_path)]).lack() == ""
