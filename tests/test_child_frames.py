"""Which files a probe takes for the user's own."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from lintrain.rulebook import find_rules
from lintrain.runtime.child import frames
from lintrain.runtime.child import own_files as own
from lintrain.runtime.child.own_files import own_files


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


def test_rules_are_no_user_code_also_in_a_checkout() -> None:
    assert [file.path for file in find_rules() if frames.is_users(str(file.path))] == []


def test_a_module_that_is_imported_later_is_among_the_own_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = own_files()
    later = ModuleType("imported_later")
    later.__file__ = str(tmp_path / "imported_later.py")
    monkeypatch.setitem(sys.modules, later.__name__, later)
    assert {*own_files()} - {*before} == {later.__file__}
    monkeypatch.delitem(sys.modules, later.__name__)
    assert own_files() == before


def test_files_are_listed_again_only_after_an_import(monkeypatch: pytest.MonkeyPatch) -> None:
    own_files()
    monkeypatch.setattr(own, "is_users", lambda _: pytest.fail("listed again"))
    own_files()
