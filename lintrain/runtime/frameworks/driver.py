"""Drive a run through its stages, once for every framework whose steps lintrain makes itself.

A Trainer and Keras are driven from here: `drive` runs one stage after the other, and a `Framework` says how its batch,
its loss and its step are made. A loop of the script's own and Lightning run by themselves, and their stages are
settled as events come (`frameworks.loop.watch`, `frameworks.lightning.guide`). Both use the same `MeasuredRun` for
the start, the progress, the failure and the reason of each stage.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from lintrain.evidence.fields import EvidenceFields
from lintrain.evidence.run import StageName
from lintrain.evidence.stages import TRAINING_STAGES
from lintrain.runtime.child.measured_run import MeasuredRun
from lintrain.startup.lazy_dataclass import dataclass

ON_REQUEST = (StageName.OVERFIT, StageName.MEMORY, StageName.THROUGHPUT)
DRIVEN = (StageName.DATASET, *TRAINING_STAGES, StageName.EVALUATION, *ON_REQUEST)
NO_STEP = "training does not reach its first step"


@dataclass(frozen=True)
class Work:
    """What a framework does in a stage.

    An error is the script's, unless `cannot` says which part of a measurement of lintrain's own it comes from.
    """

    run: Callable[[], None]
    cannot: str = ""


class Framework(ABC):
    """How one framework makes what the driver measures."""

    name: str

    def __init__(self, run: MeasuredRun) -> None:
        self.run = run

    @abstractmethod
    def facts(self) -> EvidenceFields:
        """What is known of the run before its first stage."""

    @abstractmethod
    def work(self, stage: StageName) -> Work | None:
        """What a stage does; None if the framework has no such measurement."""

    @abstractmethod
    def hindrance(self, stage: StageName) -> str:
        """Why a stage cannot run, "" if it can; asked when its turn comes."""

    @abstractmethod
    def conclude(self) -> None:
        """Send what only all stages together show."""


def drive(framework: Framework) -> None:
    """Run every stage that can run; the evidence is sent as it comes, so that a killed process leaves what it had."""
    run, failed = framework.run, ""
    run.begin(**framework.facts())
    for stage in DRIVEN:
        # A stage that was not requested has no line in the report. One that was requested has one in any case: with a
        # result, or with the reason why there is none.
        if stage in ON_REQUEST and not run.is_asked(stage):
            continue
        # The framework's own reason comes first: "the weights were not loaded" says more than that an earlier stage
        # failed.
        reason = framework.hindrance(stage) or (failed if stage in TRAINING_STAGES else "")
        _take(framework, stage, reason)
        # Each training stage needs what the one before it left. Evaluation does not: a Trainer evaluates before its
        # first step, and a failing step says nothing about the metric function.
        if stage in TRAINING_STAGES and not reason and not run.passed(stage):
            failed = f"the {stage} stage failed"
    framework.conclude()
    run.finish()


def _take(framework: Framework, stage: StageName, reason: str) -> None:
    run, work = framework.run, framework.work(stage)
    # A reason beats missing work: "an earlier stage failed" is about this run, "not measured for Keras" about lintrain.
    if reason:
        run.skip(stage, reason)
    elif work is None:
        run.skip(stage, f"it is not measured for {framework.name}")
    elif work.cannot:
        run.attempt_extra(stage, work.run, work.cannot)
    else:
        run.attempt(stage, work.run)
