"""What is kept costs a start next to nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lintrain.cache.store import Store
from lintrain.cache.whole_files import ENOUGH, digest_of_code, digest_of_program
from tests.support.kept_project import Ask, ask, project, put

__all__ = ["ask", "project"]
"""The fixtures."""


def test_a_file_by_itself_has_its_whole_answer_kept_and_no_store(project: Path, ask: Ask) -> None:
    first = ask("check", "train.py")
    assert ask("check", "train.py") == first
    assert {each.name for each in (project.parent / "cache" / ".lintrain_cache").iterdir()} == {
        ".gitignore",
        "CACHEDIR.TAG",
        "answers",
    }


def test_what_is_kept_is_written_when_the_report_is_out(
    project: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    shown = list[bytes]()

    def keep(_store: Store, _found: object) -> None:
        shown.append(capsysbinary.readouterr().out)

    monkeypatch.setattr(Store, "keep", keep)
    ask()
    assert [b"undefined-name" in each for each in shown] == [True]


def record(package: Path, *lines: str) -> None:
    folder = package.parent / "lintrain-1.0.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "RECORD").write_text("".join(f"{line}\n" for line in lines))


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A lintrain in a folder of packages, with its rules in it."""
    for name in ("__init__.py", "core/place.py", "rules/loop/some_rule.py", "rules/data/table.json", "cli/check.py"):
        put(f"site-packages/lintrain/{name}", "code\n")(tmp_path)
    return tmp_path / "site-packages" / "lintrain"


def code_of(package: Path) -> str:
    return digest_of_code(str(package), str(package / "rules"), "1.0")


CODE, RULE, MADE, COMMAND = (
    "lintrain/model/location.py,sha256=a,5",
    "lintrain/rules/loop/some_rule.py,sha256=b,5",
    "lintrain/model/__pycache__/location.cpython-311.pyc,,",
    "../../bin/lintrain,sha256=c,200",
)


def test_installed_code_is_known_by_its_list_of_files_alone(package: Path) -> None:
    record(package, CODE, RULE, MADE, COMMAND)
    before = code_of(package)
    put("core/place.py", "other code\n")(package)
    record(package, RULE, COMMAND.replace("=c", "=d"), CODE)
    assert code_of(package) == before
    record(package, CODE, RULE.replace("=b", "=d"), MADE, COMMAND)
    assert code_of(package) != before


@pytest.mark.parametrize("name", ["core/place.py", "rules/loop/some_rule.py", "rules/data/table.json", "core/new.py"])
def test_code_of_a_checkout_is_known_by_the_stamps_of_its_files(package: Path, name: str) -> None:
    before = code_of(package)
    assert code_of(package) == before
    put(name, "other code\n")(package)
    assert code_of(package) != before


@pytest.mark.parametrize("other", [b"build 2" + b"-" * ENOUGH, b"build 1" + b"-" * ENOUGH + b"more"])
def test_a_program_is_known_by_its_beginning_and_its_size(tmp_path: Path, other: bytes) -> None:
    program = tmp_path / "ruff"
    program.write_bytes(b"build 1" + b"-" * ENOUGH)
    before = digest_of_program(str(program))
    assert digest_of_program(str(program)) == before
    program.write_bytes(other)
    assert digest_of_program(str(program)) != before


def test_code_that_has_no_say_in_what_a_file_shows_is_left_out(package: Path) -> None:
    before = code_of(package)
    put("cli/check.py", "other code\n")(package)
    assert code_of(package) == before


def touched(package: Path) -> None:
    state = (package / "core/place.py").stat()
    os.utime(package / "core/place.py", ns=(state.st_atime_ns, state.st_mtime_ns + 1))


def shorter(package: Path) -> None:
    state = (package / "core/place.py").stat()
    put("core/place.py", "code")(package)
    os.utime(package / "core/place.py", ns=(state.st_atime_ns, state.st_mtime_ns))


@pytest.mark.parametrize("change", [touched, shorter])
def test_either_time_or_size_tells_one_code_from_another(package: Path, change: Callable[[Path], None]) -> None:
    before = code_of(package)
    change(package)
    assert code_of(package) != before
