"""One training run under measurement: what is trained, its stages, and the evidence sent as it comes."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from lintrain.evidence.run import BatchEvidence, Stage
from lintrain.model.location import Location
from lintrain.runtime.child.frames import failure_of, is_probes_own
from lintrain.runtime.child.session import Session

if TYPE_CHECKING:
    from lintrain.runtime.measure.responses import Responses

Result = TypeVar("Result")


class Run(ABC):
    """What every framework's run has, and everything that one stage leaves for the next.

    `call` is where the script trains; `texts` are a few texts of its datasets; `batches` come from the run's own
    loader; `losses` are their raw losses; `about` says of which part of a stage an error is, `fallback` where it is
    shown when no line of the user is on its way; `responses` asked the model again.
    """

    def __init__(self, session: Session, call: Location | None) -> None:
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
        self.statuses: dict[str, str] = {}
        self.responses: Responses | None = None

    @property
    @abstractmethod
    def model(self) -> Any:
        """The module whose parameters are trained, as the script made it."""

    @property
    @abstractmethod
    def collator(self) -> Any:
        """What puts rows together to a batch."""

    @property
    def optimizers(self) -> tuple[Any, ...]:
        """The optimizers of torch that step this model; empty before they are made."""
        return ()

    @property
    def label_inputs(self) -> tuple[str, ...]:
        """The arguments of the model's forward that are labels, as far as the framework knows any."""
        return ()

    @property
    def clipped_at(self) -> float | None:
        """The largest norm that gradients may have; None where nobody clips them."""
        return None

    def tokenizer_holders(self) -> Iterable[tuple[Any, str]]:
        """Objects, and which attribute of theirs may be the tokenizer."""
        return ((self.collator, "tokenizer"), (self.collator, "processing_class"))

    def measured(self, **values: Any) -> None:
        """Send evidence: fields of `Evidence` by name."""
        self.session.channel.send("measured", run=0, values=values)

    def progress(self, stage: str, done: int, of: int) -> None:
        """Say how far a stage is."""
        self.session.channel.send("progress", run=0, stage=stage, done=done, of=of)

    def attempt(self, name: str, work: Callable[[], Result]) -> Result | None:
        """Run one stage; an error in the user's pipeline is its result, not a crash."""
        self.session.channel.send("stage-started", run=0, stage=name)
        self.about, self.fallback = "", self.call
        started = time.perf_counter()
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - whatever the user's collator, model or metric raises is the answer
            self.fails(name, error, time.perf_counter() - started)
            return None
        self.settles(Stage(name, "passed", time.perf_counter() - started))
        return result

    def skip(self, name: str, reason: str) -> None:
        """Record that a stage cannot run."""
        self.settles(Stage(name, "not reached", 0.0, reason))

    def passed(self, name: str) -> bool:
        """Whether a stage went through."""
        return self.statuses.get(name) == "passed"

    def fails(self, name: str, error: BaseException, seconds: float = 0.0) -> None:
        """Record that a stage ended with an error."""
        stage = self._failed(name, seconds, error)
        self.settles(stage)
        if stage.failure is not None and self.session.reproducer is not None:
            self.session.reproducer.fails(name, error)

    def settles(self, stage: Stage) -> None:
        """Record what became of a stage."""
        self.statuses[stage.name] = stage.status
        self.session.channel.send("stage", run=0, stage=stage)

    def _failed(self, name: str, seconds: float, error: BaseException) -> Stage:
        if is_probes_own(error):
            reason = f"lintrain's own measurement failed: {type(error).__name__}: {error}"
            return Stage(name, "not reached", seconds, reason)
        if (refusal := self.session.refusal(error)) is not None:
            return Stage(name, "not reached", seconds, f"lintrain's own guard: {refusal}")
        return Stage(name, "failed", seconds, self.about, failure_of(error, self.fallback))
