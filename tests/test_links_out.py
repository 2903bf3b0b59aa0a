"""What lintrain writes stays in the project, whatever links and settings of the project say."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lintrain.cli import run
from lintrain.settings.table import BY_NAME

BAD = "from transformers import TrainingArguments\nTrainingArguments('out', lerning_rate=1)\n"
MENDED = BAD.replace("lerning", "learning")
FIX = ("check", "--no-cache", "--fix", "--unsafe-fixes")
REFUSED = "not written, because a link leads out of the project; name `{}` itself to change it"

LEADING_OUT: dict[str, str] = {
    "extend": '"../outside/lintrain.toml"',
    "rules": '["../outside"]',
    "fail-on": '"../outside/theirs.py"',
    "max-warnings": '"../outside/theirs.py"',
    "select": '["../outside/theirs.py"]',
    "extend-select": '["../outside/theirs.py"]',
    "ignore": '["../outside/theirs.py"]',
    "per-file-ignores": '{"../outside/*" = ["raw-dataset"]}',
    "exclude": '["../outside/*"]',
    "extend-exclude": '["../outside/*"]',
    "respect-gitignore": '"../outside/theirs.py"',
    "force-exclude": '"../outside/theirs.py"',
    "output-format": '"../outside/theirs.py"',
    "preview": '"../outside/theirs.py"',
    "strict": '"../outside/theirs.py"',
    "jobs": '"../outside/theirs.py"',
    "baseline": '"../outside/theirs.py"',
    "documentation": '"https://{outside}/theirs.py"',
    "levels": '{"../outside/theirs.py" = "note"}',
    "target-versions": '{"../outside/theirs.py" = "1.0"}',
}
"""For every key of the configuration, a value that leads out of the project."""


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "theirs.py").write_text(BAD)
    return folder


@pytest.fixture
def project(tmp_path: Path, outside: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    (folder / "inner").mkdir(parents=True)
    (folder / "pyproject.toml").write_text("[tool.lintrain]\n")
    (folder / "ours.py").write_text(BAD)
    monkeypatch.chdir(folder)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("words", [FIX, ("check", "--no-cache", "--add-ignores", "why")])
def test_a_link_out_is_left_alone_and_the_others_are_written(
    project: Path, outside: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    (project / "link.py").symlink_to("../outside/theirs.py")
    assert run([*words, "link.py", "ours.py"]) == 2
    assert f"lintrain: link.py: {REFUSED.format(outside / 'theirs.py')}" in capsys.readouterr().err.splitlines()
    assert (outside / "theirs.py").read_text() == BAD
    assert (project / "ours.py").read_text() != BAD


def test_a_folder_that_is_a_link_out_is_left_alone(project: Path, outside: Path) -> None:
    (project / "sub").symlink_to("../outside")
    (outside / "pyproject.toml").write_text("")
    assert run([*FIX, "sub"]) == 2
    assert (outside / "theirs.py").read_text() == BAD


def test_a_link_within_the_project_is_written_through(project: Path) -> None:
    link = project / "inner" / "link.py"
    link.symlink_to("../ours.py")
    assert run([*FIX, "inner/link.py"]) == 0
    assert link.is_symlink()
    assert (project / "ours.py").read_text() == MENDED


def test_where_no_project_is_a_link_stays_in_its_folder(project: Path, outside: Path) -> None:
    (project / "pyproject.toml").unlink()
    (project / "beside.py").symlink_to("ours.py")
    (project / "link.py").symlink_to("../outside/theirs.py")
    assert run([*FIX, "beside.py", "link.py"]) == 2
    assert ((project / "ours.py").read_text(), (outside / "theirs.py").read_text()) == (MENDED, BAD)


def test_a_file_that_is_named_where_it_lies_is_written(project: Path, outside: Path) -> None:
    assert run([*FIX, str(outside / "theirs.py")]) == 0
    assert (outside / "theirs.py").read_text() == MENDED


def test_a_project_reached_through_a_link_is_written(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "short").symlink_to("project")
    monkeypatch.chdir(tmp_path)
    assert run([*FIX, "short/ours.py"]) == 0
    assert (project / "ours.py").read_text() == MENDED


@pytest.mark.parametrize("name", ["lintrain.toml", ".pre-commit-config.yaml"])
def test_init_makes_no_file_behind_a_link_out(project: Path, outside: Path, name: str) -> None:
    (project / "pyproject.toml").unlink()
    subprocess.run(["git", "init", "-q"], check=True)
    (project / name).symlink_to("../outside/new")
    before = contents(outside)
    assert run(["init"]) == 2
    assert contents(outside) == before
    (other,) = {"lintrain.toml", ".pre-commit-config.yaml"} - {name}
    assert (project / other).is_file()


@pytest.mark.parametrize(
    "setting", ["../outside/theirs.py", "{outside}/theirs.py", "link/theirs.py", "../outside/new/x"]
)
def test_a_baseline_that_is_set_out_of_the_project_is_not_written(
    project: Path, outside: Path, capsys: pytest.CaptureFixture[str], setting: str
) -> None:
    (project / "link").symlink_to("../outside")
    setting = setting.format(outside=outside)
    (project / "pyproject.toml").write_text(f"[tool.lintrain]\nbaseline = '{setting}'\n")
    before = contents(outside)
    assert run(["baseline"]) == 2
    assert capsys.readouterr().err == (
        f"lintrain: {project / 'pyproject.toml'}: `baseline`: `{setting}` is outside of the project; "
        "pass `--baseline FILE` to write it anyway\n"
    )
    assert contents(outside) == before


def test_a_baseline_that_is_a_link_out_is_not_written(project: Path, outside: Path) -> None:
    (project / "lintrain-baseline.json").symlink_to("../outside/new.json")
    before = contents(outside)
    assert run(["baseline"]) == 2
    assert contents(outside) == before


def test_a_baseline_that_the_user_names_is_written_anywhere(project: Path, outside: Path) -> None:
    assert run(["baseline", "--baseline", str(outside / "known.json")]) == 0
    assert (outside / "known.json").is_file()


def test_a_baseline_within_the_project_is_written(project: Path) -> None:
    (project / "pyproject.toml").write_text("[tool.lintrain]\nbaseline = 'inner/../ci/known.json'\n")
    assert run(["baseline"]) == 0
    assert (project / "ci" / "known.json").is_file()


def test_every_key_of_the_configuration_is_tried() -> None:
    assert {*LEADING_OUT} == {*BY_NAME}


@pytest.mark.parametrize("key", LEADING_OUT)
def test_no_key_of_the_configuration_makes_a_command_write_outside(
    project: Path, outside: Path, tmp_path: Path, key: str
) -> None:
    value = LEADING_OUT[key].replace("{outside}", str(outside))
    (project / "pyproject.toml").write_text(f"[tool.lintrain]\n{key} = {value}\n")
    before = contents(outside)
    fixing = [[*FIX], ["check", "--no-cache", "--no-baseline", "--add-ignores", "why"]]
    for words in (*fixing, ["check", "--output-format", "json"], ["baseline"], ["baseline", "--prune"], ["init"]):
        assert run(words) in (0, 1, 2)
    assert contents(outside) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["outside", "project"]
