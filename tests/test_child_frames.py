"""Which files a probe takes for the user's own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lintrain.runtime.child import frames


@pytest.fixture(autouse=True)
def nothing_known() -> None:
    frames.library_folders.cache_clear()
    frames.is_users.cache_clear()


@pytest.mark.parametrize("name", ["site-packages", "dist-packages"])
def test_packages_of_another_environment_are_no_user_code(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / name), str(tmp_path / "mine")])
    assert not frames.is_users(str(tmp_path / name / "torch" / "nn.py"))
    assert frames.is_users(str(tmp_path / "mine" / "net.py"))


def test_packages_of_an_environment_that_is_added_later_are_no_user_code(tmp_path: Path) -> None:
    frames.library_folders()
    assert not frames.is_users(str(tmp_path / "site-packages" / "transformers" / "models" / "modeling_bert.py"))
