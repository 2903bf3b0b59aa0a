"""The verdict of the last probe stays with a finding until something that it rests on changes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lintrain.cache.folder import FOLDER_VARIABLE
from lintrain.cli import run
from lintrain.evidence.run import Evidence
from lintrain.evidence.stages import Ending, EndingKind
from lintrain.model.finding import Finding
from lintrain.model.level import Level
from lintrain.model.location import Location
from lintrain.model.verdict import Verdict
from lintrain.runtime.parent.kept_verdicts import KeptVerdicts, keep_verdicts
from lintrain.runtime.parent.record import SCHEMA, Record

VERDICT = Verdict.confirmed("labels reach 7, the head has 2", largest=7)
SCRIPT = b"import model\n"
NEVER_CLEARS = """
import torch

net = torch.nn.Linear(4, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(10):
    torch.nn.functional.cross_entropy(net(torch.randn(8, 4)), torch.randint(0, 3, (8,))).backward()
    optimizer.step()
"""


class Project:
    """A script, a module of its own, and an environment with one library, probed once."""

    def __init__(self, folder: Path) -> None:
        self.script, self.module = folder / "train.py", folder / "model.py"
        self.script.write_bytes(SCRIPT)
        self.module.write_text("SIZE = 2\n")
        self.torch = folder / "env/lib/python3.11/site-packages/torch-2.13.0.dist-info"
        self.torch.mkdir(parents=True)
        location = Location(str(self.script), 1, 1, 1, 13)
        self.finding = Finding("missing-num-labels", Level.ERROR, location, "too few labels")
        self.keep(VERDICT)

    def keep(self, verdict: Verdict, files: tuple[Path, ...] = ()) -> None:
        """What a probe leaves that loaded these files, or all."""
        evidence = Evidence(str(self.script), "transformers", "Trainer", None, None, "cpu", {"torch": "2.13.0"})
        python = str(self.torch.parents[3] / "bin" / "python")
        ending = Ending(EndingKind.MEASURED, files=tuple(map(str, files or (self.script, self.module))))
        record = Record(SCHEMA, "1.0", str(self.script), "", python, ending, (evidence,))
        keep_verdicts(record, [(self.finding, verdict)])

    def verdict(self, lintrain: str = "1.0", text: bytes | None = None) -> Verdict | None:
        """What is left of it."""
        return KeptVerdicts(str(self.script), lintrain, text).of(self.finding)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "cache"))
    return Project(tmp_path)


def test_a_verdict_is_there_again_with_its_numbers(project: Project) -> None:
    assert project.verdict() == VERDICT
    assert project.verdict(text=SCRIPT) == VERDICT


CHANGES: dict[str, Callable[[Project], object]] = {
    "script": lambda project: project.script.write_text("import model, torch\n"),
    "module": lambda project: project.module.write_text("SIZE = 8\n"),
    "module gone": lambda project: project.module.unlink(),
    "version": lambda project: project.torch.rename(project.torch.with_name("torch-2.14.0.dist-info")),
    "cache gone": lambda project: shutil.rmtree(project.script.parent / "cache"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_it_is_gone_when_something_that_it_rests_on_is(project: Project, change: Callable[[Project], object]) -> None:
    change(project)
    assert project.verdict() is None


def test_a_later_probe_that_could_not_show_it_takes_nothing_back(project: Project) -> None:
    project.keep(Verdict.inconclusive("the probe ended before this line"))
    assert project.verdict() == VERDICT


def test_a_later_probe_that_loaded_less_leaves_it_bound_to_what_it_was_measured_with(project: Project) -> None:
    project.keep(Verdict.inconclusive("the probe ended before this line"), files=(project.script,))
    project.module.write_text("SIZE = 3\n")
    assert project.verdict() is None


def test_a_later_probe_that_refutes_it_replaces_it(project: Project) -> None:
    project.keep(Verdict.refuted("labels reach 1"))
    assert project.verdict() == Verdict.refuted("labels reach 1")


def test_it_is_no_verdict_of_unsaved_text_another_lintrain_or_another_claim(project: Project) -> None:
    assert project.verdict(text=b"import model \n") is None
    assert project.verdict(lintrain="1.1") is None
    moved = Finding("missing-num-labels", Level.ERROR, Location(str(project.script), 2, 1, 2, 13), "too few labels")
    assert KeptVerdicts(str(project.script), "1.0").of(moved) is None


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b'{"schema": 1', b'{"schema": 1, "lintrain": "1.0", "texts": 3}']
)
def test_a_spoilt_cache_is_no_cache(project: Project, content: bytes) -> None:
    (kept,) = (project.script.parent / "cache").rglob("*.json")
    kept.write_bytes(content)
    assert project.verdict() is None
    project.keep(Verdict.refuted("labels reach 1"))
    assert project.verdict() == Verdict.refuted("labels reach 1")


def test_a_cache_that_cannot_be_written_stops_nobody(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(project.module))
    project.keep(VERDICT)
    assert project.verdict() is None


@pytest.mark.libraries
def test_check_shows_what_the_last_probe_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "train.py"
    script.write_text(NEVER_CLEARS)
    assert run(["probe", "train.py", "--quiet"]) == 1
    capsys.readouterr()
    assert run(["check", "train.py"]) == 1
    assert "(confirmed)" in capsys.readouterr().out
    run(["check", "train.py", "--no-cache"])
    assert "(confirmed)" not in capsys.readouterr().out
    script.write_text(script.read_text() + "print(1)\n")
    run(["check", "train.py"])
    assert "(confirmed)" not in capsys.readouterr().out
