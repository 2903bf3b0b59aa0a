"""One training run under measurement: what is trained, its stages, and the evidence sent as it comes."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from lintrain.evidence.run import BatchEvidence, BatchTable, Stage, StageName, StageStatus
from lintrain.model.location import Location
from lintrain.runtime.child.frames import failure_of, is_probes_own
from lintrain.runtime.child.probe_session import ProbeSession

if TYPE_CHECKING:
    from typing import Unpack  # Python 3.11; a script may run in 3.10

    from lintrain.evidence.fields import EvidenceFields

Result = TypeVar("Result")


class RepeatedCalls(Protocol):
    """Calls of the model with inputs changed one at a time: before any step, and once more after the steps."""

    def measure(self) -> None:
        """Make the calls before any step."""

    def after_steps(self) -> None:
        """Repeat the call whose result may have changed."""


class RowTable(Protocol):
    """Rows of the batches of one data set, as a table that grows."""

    def evidence(self) -> BatchTable:
        """The table as it is now."""
        ...

    def predict(self, output: Any, number: int, target: Any, ignored: int, used: tuple[str, ...]) -> None:
        """Add what the model predicts for a batch."""


class MeasuredRun(ABC):
    """What every framework's run has, and everything that one stage leaves for the next.

    `call` is where the script trains; `texts` are a few texts of its data sets; `batches` come from the run's own
    loader; `losses` are their raw losses; `about` names the part of a stage that an error belongs to, `fallback` is
    the location of an error whose traceback has no line of the user; `responses` calls the model again. `tables` show
    rows, `columns` and `class_names` are those of the data sets, all by argument and key. `sweep_seconds` were spent on
    a pass over all rows, None if there was none.
    """

    def __init__(self, session: ProbeSession, call: Location | None) -> None:
        # The training starts: from here on the script's own garbage collection is part of what is measured.
        session.thresholds.put_back()
        self.session = session
        self.call = call
        self.texts: list[str] = []
        self.batches: list[Any] = []
        self.batch_evidence: list[BatchEvidence] = []
        self.losses: list[float] = []
        self.output_keys: tuple[str, ...] = ()
        self.logits_shape: tuple[int, ...] = ()
        self.about = ""
        self.fallback = call
        self.statuses: dict[StageName, StageStatus] = {}
        self.responses: RepeatedCalls | None = None
        self.tables: dict[tuple[str, str | None], RowTable] = {}
        self.columns: dict[tuple[str, str | None], tuple[str, ...]] = {}
        self.class_names: dict[tuple[str, str | None], tuple[str, ...]] = {}
        self.sweep_seconds: float | None = None

    # what a framework provides

    @property
    @abstractmethod
    def model(self) -> Any:
        """The module whose parameters are trained, as the script made it."""

    @property
    @abstractmethod
    def collator(self) -> Any:
        """The function or object that collates rows into a batch."""

    @property
    def optimizers(self) -> tuple[Any, ...]:
        """The torch optimizers that step this model; empty before they are made."""
        return ()

    @property
    def label_inputs(self) -> tuple[str, ...]:
        """The arguments of the model's forward that are labels, as far as the framework knows."""
        return ()

    @property
    def clipped_at(self) -> float | None:
        """The norm that gradients are clipped to; None if they are not clipped."""
        return None

    @property
    def passes_all(self) -> bool:
        """Whether every entry of a batch is passed to the model by its name."""
        return False

    def tokenizer_holders(self) -> Iterable[tuple[Any, str]]:
        """Objects, and the attribute of each that may be the tokenizer."""
        return ((self.collator, "tokenizer"), (self.collator, "processing_class"))

    # what is sent

    def begin(self, **facts: Unpack[EvidenceFields]) -> None:
        """Report the run, and that the script and the construction before it passed."""
        self.report_run(**facts)
        self.record(Stage.passed(StageName.SCRIPT, self.session.elapsed()))
        self.record(Stage.passed(StageName.CONSTRUCTION))

    def report_run(self, **facts: Unpack[EvidenceFields]) -> None:
        """Report the run alone: its construction follows, and may fail."""
        session = self.session
        # The framework's facts come last: it knows the `framework` and `device` that the session only assumes.
        own: EvidenceFields = {"call": self.call, "shortcuts": session.shortcuts, "notes": session.notes}
        fields: EvidenceFields = {**session.facts(), **own, **facts}
        session.report_run(**fields)

    def finish(self) -> None:
        """Send what was changed and noted until now; nothing more is measured."""
        self.measured(shortcuts=self.session.shortcuts, notes=self.session.notes)

    def measured(self, **fields: Unpack[EvidenceFields]) -> None:
        """Send fields of `Evidence`; a later value of a field replaces an earlier one."""
        self.session.measured(**fields)

    def progress(self, stage: StageName, done: int, of: int) -> None:
        """Report how far a stage is."""
        self.session.channel.send("progress", run=0, stage=stage, done=done, of=of)

    # stages

    def is_asked(self, name: StageName) -> bool:
        """Whether a stage that runs on request only was requested."""
        if name is StageName.OVERFIT:
            return bool(self.session.overfit)
        return name in self.session.also

    def attempt(self, name: StageName, work: Callable[[], Result]) -> Result | None:
        """Run one stage; an error in the user's pipeline is its result, not a crash of the probe."""
        self.starts(name)
        # Set by the stage as it goes on; an error before it does is shown at the training call.
        self.about, self.fallback = "", self.call
        started = time.perf_counter()
        try:
            result = work()
        # `SystemExit` and `KeyboardInterrupt` too: a metric that calls `sys.exit` ends an evaluation
        # as surely as an error.
        except BaseException as error:  # noqa: BLE001 - whatever the user's collator, model or metric raises is the answer
            self.record_failure(name, error, time.perf_counter() - started)
            return None
        self.record(Stage.passed(name, time.perf_counter() - started))
        return result

    def attempt_extra(self, name: StageName, work: Callable[[], None], cannot: str) -> None:
        """Run a measurement of lintrain's own making, whose errors are no errors of the script.

        The script's steps passed before; an error here means that they need what this measurement leaves out, and
        `cannot` says so before the error.
        """
        self.starts(name)
        started = time.perf_counter()
        try:
            work()
        except Exception as error:  # noqa: BLE001 - as above
            self.skip(name, f"{cannot}: {type(error).__name__}: {error}")
            return
        self.record(Stage.passed(name, time.perf_counter() - started))

    def starts(self, name: StageName) -> None:
        """Report that a stage is running, so that a process that is killed in it names it."""
        self.session.channel.send("stage-started", run=0, stage=name)

    def skip(self, name: StageName, reason: str) -> None:
        """Record that a stage cannot run."""
        self.record(Stage.not_reached(name, reason))

    def skip_missing(self, names: Iterable[StageName], reason: str) -> None:
        """Record that those of some stages that have no result yet cannot run."""
        for name in names:
            # The first reason stays: what hindered the batch says more than what that made impossible later.
            if name not in self.statuses:
                self.skip(name, reason)

    def passed(self, name: StageName) -> bool:
        """Whether a stage ran without an error."""
        return self.statuses.get(name) is StageStatus.PASSED

    def record_failure(self, name: StageName, error: BaseException, seconds: float = 0.0) -> None:
        """Record that a stage ended with an error."""
        stage = self._failed(name, seconds, error)
        self.session.failed_by = error if stage.failure is not None else self.session.failed_by
        self.record(stage)
        if stage.failure is not None and self.session.reproducer is not None:
            self.session.reproducer.keep_failure(name, error)

    def record(self, stage: Stage) -> None:
        """Record the result of a stage."""
        self.statuses[stage.name] = stage.status
        self.session.report_stage(stage)
        if stage.name is StageName.DATASET and self.is_asked(StageName.ROWS):
            self._record_rows(stage)

    def _record_rows(self, dataset: Stage) -> None:
        """Record the pass over all rows, which is a part of the dataset stage."""
        if self.sweep_seconds is not None:
            self.record(Stage.passed(StageName.ROWS, self.sweep_seconds))
        elif dataset.status is StageStatus.PASSED:
            self.skip(StageName.ROWS, "the rows cannot be read without changing the run")
        else:
            self.skip(StageName.ROWS, "the dataset stage has no result")

    def _failed(self, name: StageName, seconds: float, error: BaseException) -> Stage:
        """An error of the script fails the stage; one of lintrain's measurements or guards leaves it without result."""
        # A failed stage blames the script, so an error that the probe itself raised must not become one.
        if is_probes_own(error):
            reason = f"lintrain's own measurement failed: {type(error).__name__}: {error}"
            return Stage.not_reached(name, reason, seconds)
        # The guard's exception has the script's frames on its way like any other, hence the
        # question by the error itself.
        if (refusal := self.session.refusal(error)) is not None:
            return Stage.not_reached(name, f"lintrain's own guard: {refusal}", seconds)
        return Stage.failed(name, failure_of(error, self.fallback), seconds, self.about)
