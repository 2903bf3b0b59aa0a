"""Which files a run reads."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lintrain.source.discovery import DEFAULT_EXCLUDES, Discovery, Excludes, MissingPathError


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")


def found(
    project: Path, *paths: str, excludes: tuple[str, ...] = (), gitignore: bool = True, force: bool = False
) -> list[str]:
    patterns = Excludes((*DEFAULT_EXCLUDES, *excludes), str(project))
    return Discovery(patterns, gitignore, force).find(paths or (".",))


def test_scripts_and_notebooks_are_found_in_order_and_nothing_else(project: Path) -> None:
    make(project, "b.py", "a.ipynb", "c.pyi", "d.txt", "sub/e.py", "sub/deep/f.py")
    assert found(project) == ["a.ipynb", "b.py", "sub/deep/f.py", "sub/e.py"]


def test_a_named_file_is_read_whatever_it_is_called(project: Path) -> None:
    make(project, "train", "venv/x.py")
    assert found(project, "train", "venv/x.py") == ["train", "venv/x.py"]


def test_a_file_named_twice_is_read_once(project: Path) -> None:
    make(project, "a.py")
    assert found(project, "a.py", "./a.py", ".", str(project / "a.py")) == ["a.py"]


def test_usual_folders_of_other_people_s_code_are_left_out(project: Path) -> None:
    make(project, "a.py", ".venv/b.py", "node_modules/c.py", "build/d.py", "x/site-packages/e.py", "__pycache__/f.py")
    assert found(project) == ["a.py"]


def test_a_missing_path_is_named_with_the_nearest(project: Path) -> None:
    make(project, "src/train.py")
    with pytest.raises(MissingPathError, match=r"`src/trian.py` does not exist; nearest: `src/train.py`"):
        found(project, "src/trian.py")


@pytest.mark.parametrize(
    ("pattern", "left"),
    [
        ("b.py", ["a.py", "sub/c.py"]),
        ("sub", ["a.py", "b.py"]),
        ("sub/", ["a.py", "b.py"]),
        ("sub/b.py", ["a.py", "b.py", "sub/c.py"]),
        ("./sub/b.py", ["a.py", "b.py", "sub/c.py"]),
        ("*/c.py", ["a.py", "b.py", "sub/b.py"]),
        ("[ab].py", ["sub/c.py"]),
    ],
)
def test_a_pattern_leaves_out_a_name_anywhere_or_a_path_from_the_root(
    project: Path, pattern: str, left: list[str]
) -> None:
    make(project, "a.py", "b.py", "sub/b.py", "sub/c.py")
    assert found(project, excludes=(pattern,)) == left


def test_force_exclude_leaves_out_named_files_too(project: Path) -> None:
    make(project, "a.py", "old/deep/b.py")
    assert found(project, "a.py", "old/deep/b.py", excludes=("old",)) == ["a.py", "old/deep/b.py"]
    assert found(project, "a.py", "old/deep/b.py", excludes=("old",), force=True) == ["a.py"]


def test_what_git_ignores_is_left_out_and_an_inner_file_has_the_last_word(project: Path) -> None:
    make(project, ".git/HEAD", "a.py", "out/b.py", "data/c.py", "data/keep.py", "sub/gen_d.py", "sub/e.py")
    (project / ".gitignore").write_text("out/\n*.txt\n/data/*\n!/data/keep.py\ngen_*\n")
    (project / "sub" / ".gitignore").write_text("!gen_d.py\ne.py\n")
    assert found(project) == ["a.py", "data/keep.py", "sub/gen_d.py"]
    assert len(found(project, gitignore=False)) == 6


def test_the_gitignore_of_the_repository_counts_in_a_folder_below(project: Path) -> None:
    make(project, ".git/HEAD", "sub/a.py", "sub/skip.py")
    (project / ".gitignore").write_text("skip.py\n")
    assert found(project, "sub") == ["sub/a.py"]


def test_a_named_folder_is_read_even_when_git_ignores_it(project: Path) -> None:
    make(project, ".git/HEAD", "out/a.py")
    (project / ".gitignore").write_text("out/\n")
    assert found(project, "out") == ["out/a.py"]


def test_a_gitignore_without_a_repository_counts(project: Path) -> None:
    make(project, "a.py", "b.py")
    (project / ".gitignore").write_text("b.py\n")
    assert found(project) == ["a.py"]


def test_a_loop_of_symbolic_links_ends(project: Path) -> None:
    make(project, "sub/a.py")
    (project / "sub" / "loop").symlink_to(project)
    (project / "dangling.py").symlink_to(project / "nowhere.py")
    (project / "alias.py").symlink_to(project / "sub" / "a.py")
    assert found(project) == ["alias.py"]


def test_a_folder_that_may_not_be_read_is_passed_over(project: Path) -> None:
    make(project, "a.py", "secret/b.py")
    (project / "secret").chmod(0)
    try:
        readable = os.access(project / "secret", os.R_OK)
        assert found(project) == (["a.py", "secret/b.py"] if readable else ["a.py"])
    finally:
        (project / "secret").chmod(0o755)


def test_a_template_that_is_named_when_it_is_filled_in_is_left_out(project: Path) -> None:
    make(project, "a.py", "{{cookiecutter.name}}/b.py", "c_{{name}}.py")
    assert found(project) == ["a.py"]


def test_a_link_to_itself_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.py").symlink_to("a.py")
    (tmp_path / "b.py").write_text("")
    assert [Path(found).name for found in Discovery().find([str(tmp_path)])] == ["b.py"]


def test_a_link_out_of_the_project_is_not_followed_unless_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "secret.py").write_text("")
    project = tmp_path / "project"
    (project / "inner").mkdir(parents=True)
    (project / "own.py").write_text("")
    (project / "inner" / "linked.py").symlink_to(project / "own.py")
    (project / "out.py").symlink_to(tmp_path / "secret.py")
    inside = Discovery(Excludes(root=str(project)))
    assert [Path(found).name for found in inside.find([str(project / "inner")])] == ["linked.py"]
    assert "out.py" not in {Path(found).name for found in inside.find([str(project)])}
    assert [Path(found).name for found in inside.find([str(project / "out.py")])] == ["out.py"]


def test_a_pattern_that_would_take_minutes_leaves_nothing_out(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text(f"{'*a' * 12}b\nold.py\n")
    for name in ("a" * 200, "old"):
        (tmp_path / f"{name}.py").write_text("")
    assert [Path(found).name for found in Discovery().find([str(tmp_path)])] == ["a" * 200 + ".py"]


def test_settings_that_a_training_saved_configure_nothing(project: Path) -> None:
    make(project, "run.json", "out/checkpoint-20/training_args.json", "out/checkpoint-20/model.py")
    settings = '{"output_dir": "out", "num_train_epochs": 2, "per_device_train_batch_size": 8}'
    for path in project.rglob("*.json"):
        path.write_text(settings, encoding="utf-8")
    assert found(project) == ["out/checkpoint-20/model.py", "run.json"]
