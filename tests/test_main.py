"""`python -m lintrain` in a folder that is not trusted: of what lies there nothing is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import requires
from pathlib import Path

import pytest

from tests.support.language_client import PULLS, start_process
from tests.trapped.tree import trap_of

ROOT = Path(__file__).parent.parent
SCRIPT = (
    'import torch\nfrom transformers import TrainingArguments\nTrainingArguments("o", evaluation_strategy="epoch")\n'
)
LIBRARIES = {
    "attr",
    "attrs",
    "cattrs",
    "lsprotocol",
    "markdown_it",
    "pydantic_core",
    "pygments",
    "typing_extensions",
    "yaml",
}
"""What the packages that lintrain asks for import themselves."""

PLAIN = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}


def modules_of_python(folder: Path) -> set[str]:
    """What Python itself loads to start a module, before a word of that module is read."""
    (folder / "shows_modules.py").write_text("import sys\nprint(*sys.modules)\n")
    started = [sys.executable, "-m", "shows_modules"]
    done = subprocess.run(started, cwd=folder, env=PLAIN, capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.split()}


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    (tmp_path / "marks").mkdir()
    return tmp_path / "marks"


@pytest.fixture
def trapped(tmp_path: Path, marks: Path) -> Path:
    """A folder with a script, and a module of each name that lintrain may import: as a file, and as a package."""
    folder = tmp_path / "project"
    folder.mkdir()
    asked = {name.partition(">")[0].partition("<")[0] for name in requires("lintrain") or ()}
    names = (asked | LIBRARIES | sys.stdlib_module_names) - modules_of_python(tmp_path)
    for name in sorted(names):
        (folder / f"{name}.py").write_text(trap_of(marks, name))
    for name in ("click", "rich", "pydantic", "libcst", "pygls", "json", "multiprocessing"):
        (folder / f"{name}.py").unlink()
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(trap_of(marks, name))
    (folder / "train.py").write_text(SCRIPT)
    return folder


def lintrain(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lintrain", *words]
    return subprocess.run(
        command, cwd=folder, env={**PLAIN, "HOME": str(folder.parent)}, capture_output=True, text=True
    )


def ran(marks: Path) -> list[str]:
    return sorted(path.name for path in marks.iterdir())


def test_the_traps_work(trapped: Path, marks: Path) -> None:
    for name in ("click", "ast"):
        subprocess.run([sys.executable, "-m", name], cwd=trapped, env=PLAIN, capture_output=True, check=False)
    assert ran(marks) == ["ast", "click"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("check", "--no-cache", "--output-format", "full", "train.py"),
        ("check", "--no-cache", "--output-format", "html", "--verbose", "train.py"),
        ("check", "--no-cache", "--diff", "train.py"),
        ("explain", "raw-dataset"),
        ("rules",),
        ("schema",),
        ("baseline",),
    ],
    ids=" ".join,
)
def test_no_module_of_the_working_folder_is_imported(trapped: Path, marks: Path, words: Sequence[str]) -> None:
    done = lintrain(trapped, *words)
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 1), done.stderr
    assert ran(marks) == []


@pytest.mark.slow
def test_the_server_imports_none_either(trapped: Path, marks: Path) -> None:
    process, client = start_process(trapped, {"PYTHONPATH": str(ROOT)})
    client.start([trapped], PULLS)
    uri = client.open(trapped / "train.py")
    answer = client.ask("textDocument/diagnostic", {"textDocument": {"uri": uri}})
    client.stop()
    assert process.wait(60) == 0
    assert process.stderr is not None
    with process.stderr as said:
        assert said.read() == b""
    assert [one["code"] for one in answer["items"]] != []
    assert ran(marks) == []


def test_with_a_safe_path_no_entry_is_taken_off(tmp_path: Path) -> None:
    given = {**PLAIN, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    (tmp_path / "click.py").write_text("import sys\nsys.exit('the path of the user counts')\n")
    command = [sys.executable, "-P", "-m", "lintrain", "--help"]
    done = subprocess.run(command, cwd=tmp_path, env=given, capture_output=True, text=True, check=False)
    assert done.stderr == "the path of the user counts\n"


def test_a_checkout_may_be_the_working_folder() -> None:
    bare = {name: value for name, value in PLAIN.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-m", "lintrain", "--version"], cwd=ROOT, env=bare, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout[:9]) == (0, "lintrain ")


def test_a_working_folder_that_is_gone_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    leave = f"import os, sys; os.rmdir({str(tmp_path / 'gone')!r}); os.execv(sys.argv[1], sys.argv[1:])"
    command = [sys.executable, "-c", leave, sys.executable, "-m", "lintrain", "--version"]
    done = subprocess.run(
        command, cwd=tmp_path / "gone", env={**os.environ, **PLAIN}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
