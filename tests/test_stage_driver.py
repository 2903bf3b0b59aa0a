"""The stages of a run as the driver runs them: their order, what follows a failure, and what has to be requested."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lintrain.evidence.fields import EvidenceFields
from lintrain.evidence.run import StageName
from lintrain.runtime.child.measured_run import MeasuredRun
from lintrain.runtime.frameworks.driver import Framework, Work, drive
from lintrain.runtime.in_process.session import InProcessSession


class Plain(MeasuredRun):
    """A run without a model."""

    model: Any = None
    collator: Any = None


class Scripted(Framework):
    """Stages that pass, unless they are hindered, raise an error, or do not exist."""

    name = "a test"

    def __init__(self, run: MeasuredRun, fails: set[StageName], hindered: Mapping[StageName, str]) -> None:
        super().__init__(run)
        self._fails, self._hindered = fails, hindered
        self.ran: list[StageName] = []

    def facts(self) -> EvidenceFields:
        return {"trainer": "Scripted", "construction": None}

    def work(self, stage: StageName) -> Work | None:
        if stage is StageName.THROUGHPUT:
            return None
        return Work(lambda: self._run(stage), "it cannot be repeated" if stage is StageName.MEMORY else "")

    def hindrance(self, stage: StageName) -> str:
        return self._hindered.get(stage, "")

    def conclude(self) -> None:
        self.run.measured(ended_in=None)

    def _run(self, stage: StageName) -> None:
        self.ran.append(stage)
        if stage in self._fails:
            int("not a number")


def driven(
    folder: Path,
    fails: set[StageName] | None = None,
    hindered: Mapping[StageName, str] | None = None,
    also: tuple[str, ...] = (),
) -> dict[str, tuple[str, str]]:
    """Status and reason of each stage, in the order of their ends."""
    session = InProcessSession(str(folder), "train.py", overfit=2 if "overfit" in also else 0, also=also)
    drive(Scripted(Plain(session, None), fails or set(), hindered or {}))
    stages = [event["stage"] for event in session.events if event["event"] == "stage"]
    return {stage["name"]: (stage["status"], stage["reason"]) for stage in stages}


def test_every_stage_runs_once_and_in_order(tmp_path: Path) -> None:
    found = driven(tmp_path)
    names = ["script", "construction", "dataset", "batch", "forward", "backward", "step", "evaluation"]
    assert list(found) == names
    assert {status for status, _ in found.values()} == {"passed"}


def test_after_a_failed_training_stage_only_the_evaluation_runs(tmp_path: Path) -> None:
    found = driven(tmp_path, hindered={StageName.FORWARD: "the weights were not loaded"})
    assert found["forward"] == ("not reached", "the weights were not loaded")
    assert (found["backward"][0], found["evaluation"][0]) == ("passed", "passed")
    failed = driven(tmp_path, fails={StageName.FORWARD})
    assert failed["backward"] == failed["step"] == ("not reached", "the forward stage failed")
    assert failed["evaluation"] == ("passed", "")


def test_measurements_on_request_have_a_line_only_if_they_were_requested(tmp_path: Path) -> None:
    found = driven(tmp_path, also=("overfit", "throughput"))
    assert list(found)[-2:] == ["overfit", "throughput"]
    assert found["overfit"] == ("passed", "")
    assert found["throughput"] == ("not reached", "it is not measured for a test")


def test_an_error_in_a_measurement_of_lintrains_own_is_not_one_of_the_script(tmp_path: Path) -> None:
    status, reason = driven(tmp_path, fails={StageName.MEMORY}, also=("memory",))["memory"]
    assert status == "not reached"
    assert reason.startswith("it cannot be repeated: ValueError: invalid literal")
