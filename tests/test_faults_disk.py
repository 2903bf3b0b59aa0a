"""A full disk and folders that nobody may write into: said in one line, and nothing of the user's is lost.

Root may write into any folder of a disk, so the tests stand on what holds for root, too: `/dev/full`, a limit on the
size of files, and `/proc`, in which no folder can be made.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /dev/full and /proc")

SCRIPT = "from transformers import TrainingArguments\nTrainingArguments('out', lerning_rate=1)\n"
FULL = "lintrain: standard output: no space left on device\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path


CODE_IS_NOT_KEPT = {"PYTHONDONTWRITEBYTECODE": "1"}
"""For processes without room: Python leaves half of a compiled module behind there, which breaks every later start."""


def no_room() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))


def little_room() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1500, resource.RLIM_INFINITY))


def lintrain(
    project: Path, *words: str, output: str = os.devnull, cache: str = "", limit: Callable[[], None] | None = None
) -> tuple[int, str]:
    """Exit code and what is said on stderr."""
    environment = {**os.environ, **CODE_IS_NOT_KEPT, "PYTHONPATH": str(ROOT)}
    environment["LINTRAIN_CACHE_DIR"] = cache or str(project / "cache")
    with open(output, "wb") as out:  # noqa: PTH123 - a device
        done = subprocess.run(
            [sys.executable, "-m", "lintrain", *words],
            cwd=project,
            env=environment,
            stdout=out,
            stderr=subprocess.PIPE,
            preexec_fn=limit,
            check=False,
            text=True,
        )
    return done.returncode, done.stderr


@pytest.mark.turns(one_in=3, of="file")
@pytest.mark.parametrize("form", ["concise", "json", "sarif", "html"])
def test_a_report_that_does_not_fit_is_no_answer(project: Path, form: str) -> None:
    words = ("check", "--no-cache", "--output-format", form, "train.py")
    assert lintrain(project, *words, output="/dev/full") == (2, FULL)


def test_a_kept_answer_that_does_not_fit_is_none(project: Path) -> None:
    words = ("check", "--cache-dir", "kept", "train.py")
    assert [lintrain(project, *words)[0] for _ in range(2)] == [1, 1]
    assert lintrain(project, *words, output="/dev/full") == (2, FULL)
    assert lintrain(project, *words) == (1, "")


def test_a_fix_that_does_not_fit_leaves_the_script(project: Path) -> None:
    fix = ("check", "--no-cache", "--fix", "--unsafe-fixes", "train.py")
    assert lintrain(project, *fix, limit=no_room) == (2, "lintrain: train.py: file too large\n")
    assert (project / "train.py").read_text() == SCRIPT
    assert lintrain(project, *fix)[0] == 0
    assert "learning_rate=1" in (project / "train.py").read_text()


def test_a_fix_keeps_the_rights_and_the_links_of_its_file(project: Path) -> None:
    script = project / "train.py"
    script.chmod(0o640)
    (project / "same.py").hardlink_to(script)
    (project / "link.py").symlink_to("train.py")
    assert lintrain(project, "check", "--no-cache", "--fix", "--unsafe-fixes", "link.py")[0] == 0
    assert script.stat().st_mode & 0o777 == 0o640
    assert "learning_rate=1" in (project / "same.py").read_text()
    assert (project / "link.py").is_symlink()


@pytest.mark.parametrize("words", [("--output-file", "report.txt"), ("--add-ignores=why",)])
def test_nothing_else_that_does_not_fit_harms_the_script(project: Path, words: tuple[str, ...]) -> None:
    code, said = lintrain(project, "check", "--no-cache", *words, "train.py", limit=no_room)
    assert code == 2
    assert said.endswith(": file too large\n")
    assert (project / "train.py").read_text() == SCRIPT


@pytest.mark.parametrize("cache", ["/proc/lintrain", "/dev/full/lintrain"])
def test_a_cache_that_cannot_be_written_is_done_without(project: Path, cache: str) -> None:
    assert lintrain(project, "check", "train.py", cache=cache) == (1, "")


def test_a_cache_without_room_is_done_without(project: Path) -> None:
    assert lintrain(project, "check", "train.py", limit=no_room) == (1, "")
    assert [path.name for path in (project / "cache").rglob("*") if path.suffix == ".new"] == []


def test_streams_that_are_closed_take_nothing_and_change_nothing(project: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "LINTRAIN_CACHE_DIR": str(project / "cache")}
    check = f"{sys.executable} -m lintrain check"
    command = f"{check} train.py >&-; echo $?; {check} no.py 2>&-; echo $?"
    done = subprocess.run(
        ["sh", "-c", command], cwd=project, env=environment, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("1\n2\n", "")


LOOP = """
import torch

net = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(9):
    optimizer.zero_grad()
    net(torch.ones(3, 4)).sum().backward()
    optimizer.step()
"""


def probed(project: Path, limit: Callable[[], None]) -> tuple[int, str, str]:
    """Exit code, report, and what is said beside it."""
    (project / "train.py").write_text(LOOP)
    code, said = lintrain(project, "probe", "--quiet", "train.py", output=str(project / "report"), limit=limit)
    assert (project / "train.py").read_text() == LOOP
    assert sorted(path.name for path in project.iterdir() if path.name != "cache") == ["report", "train.py"]
    return code, (project / "report").read_text(), said


@pytest.mark.turns(one_in=3, of="file")
def test_a_probe_that_has_no_room_for_a_file_of_its_own_could_not_judge(project: Path) -> None:
    code, report, said = probed(project, no_room)
    assert (code, report, said.count("\n")) == (3, "", 1)
    assert said.startswith("lintrain: could not judge: no disk space for the probe's files: No usable temporary")


@pytest.mark.turns(one_in=3, of="file")
def test_a_probe_whose_files_have_no_more_room_ends_with_that(project: Path) -> None:
    code, report, said = probed(project, little_room)
    assert code == 3
    assert report.splitlines()[-1].startswith(
        "could not judge: a limit was reached while measuring: no space is left for"
    )
    assert "Traceback" not in report + said


@pytest.mark.turns(one_in=2)
@pytest.mark.parametrize("cache", ["/proc/lintrain", "/dev/full/lintrain"])
def test_verdicts_that_cannot_be_kept_are_told_and_the_probe_goes_on(project: Path, cache: str) -> None:
    (project / "train.py").write_text(LOOP.replace("    optimizer.zero_grad()\n", ""))
    code, err = lintrain(project, "probe", "--quiet", "train.py", cache=cache)
    assert code == 1
    assert err.startswith("lintrain: the verdicts are not cached for later checks: ")
    assert err.count("\n") == 1
