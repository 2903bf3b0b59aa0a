"""The stages of a probe: their names, how each ended and by which error, and how the script came to its end.

`StrEnum` is defined here for Python 3.10, on which a probed script may run; lintrain itself does not.
"""

from __future__ import annotations

import sys
from typing import Literal

from lintrain.model.location import Location
from lintrain.startup.lazy_dataclass import dataclass

if sys.version_info >= (3, 11):  # noqa: UP036 - lintrain's minimum is not that of a probed script
    from enum import StrEnum as StrEnum
else:
    from enum import Enum

    class StrEnum(str, Enum):  # noqa: UP042 - the class that it would be replaced by
        """A text that is one of several known ones; it is written as its value."""

        __str__ = str.__str__
        __format__ = str.__format__


class StageName(StrEnum):
    """The stages of a probe, in the order in which they run; `rows` and those from `overfit` on run on request."""

    SCRIPT = "script"
    CONSTRUCTION = "construction"
    DATASET = "dataset"
    ROWS = "rows"
    BATCH = "batch"
    FORWARD = "forward"
    BACKWARD = "backward"
    STEP = "step"
    EVALUATION = "evaluation"
    OVERFIT = "overfit"
    DETERMINISM = "determinism"
    RANKS = "ranks"
    CHECKPOINT = "checkpoint"
    MEMORY = "memory"
    THROUGHPUT = "throughput"
    TRIALS = "trials"


StageText = Literal[
    "script",
    "construction",
    "dataset",
    "rows",
    "batch",
    "forward",
    "backward",
    "step",
    "evaluation",
    "overfit",
    "determinism",
    "ranks",
    "checkpoint",
    "memory",
    "throughput",
    "trials",
]
"""The values of `StageName`: a rule may write `evidence.passed("step")`, and a misspelt stage is a type error."""

AFTER_TRAINING = "after the training"
"""The part of the evaluation stage in which nothing is evaluated: a script saves or reports there."""
BEFORE_TRAINING = (StageName.SCRIPT, StageName.CONSTRUCTION)
TRAINING_STAGES = (StageName.BATCH, StageName.FORWARD, StageName.BACKWARD, StageName.STEP)
ALWAYS_MEASURED = (*BEFORE_TRAINING, StageName.DATASET, *TRAINING_STAGES, StageName.EVALUATION)


class StageStatus(StrEnum):
    """The result of a stage."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_REACHED = "not reached"


@dataclass(frozen=True, slots=True)
class GivenValue:
    """A value at a failing call: one that the user's line names, or an argument of the library's `function`.

    `lowest`, `highest` and `is_finite` are those of its numbers, `names` its keys or columns; a module has `weights`,
    of which some are `trainable`. `origin` is the last statement that assigned the name, as `line: code`.
    """

    name: str
    type: str
    kind: str = "object"
    function: str = ""
    origin: str = ""
    text: str = ""
    shape: tuple[int, ...] | None = None
    dtype: str = ""
    device: str = ""
    lowest: float | None = None
    highest: float | None = None
    is_finite: bool | None = None
    requires_grad: bool | None = None
    length: int | None = None
    weights: int | None = None
    trainable: int | None = None
    names: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """What the value is, in a few words: `int64 [2, 5], from 0 to 7`."""
        return self.summary_with(names_cpu=False)

    def summary_with(self, *, names_cpu: bool) -> str:
        """The same; `names_cpu` says it of a tensor on the CPU too, as beside one on a GPU."""
        if self.shape is not None:
            is_named = self.is_on_gpu or (names_cpu and self.device)
            on = f" on {self.device}" if is_named else ""
            return f"{self.dtype} {list(self.shape)}{on}{self._range}"
        match self.kind:
            case "nothing":
                return "None"
            case "number" | "text":
                return self.text
            case "module":
                return f"{self.type}({self.text})" if self.text else f"{self.type} with {self.weights} weights"
            case "dictionary" | "table":
                return f"{self.type} with {', '.join(f'`{name}`' for name in self.names[:8]) or 'nothing in it'}"
            case "sequence":
                return f"{self.type} of {self.length}{f': {self.text}' if self.text else ''}"
            case _:
                return self.type

    @property
    def is_on_gpu(self) -> bool:
        """Whether it is a tensor on another device than the CPU."""
        return self.device not in ("", "cpu")

    @property
    def _range(self) -> str:
        if self.is_finite is False:
            return ", not all finite"
        if self.lowest is None or self.highest is None:
            return ""
        return f", from {self.lowest:.4g} to {self.highest:.4g}" if self.shape else f", {self.lowest:.4g}"


@dataclass(frozen=True, slots=True)
class Failure:
    """An error that the script or a library raised; `location` is the innermost frame of the user's own code.

    `reached` is the location in the top-level code of a file that had been reached: the lines above it did run.
    `raised_in` is the function of a library that raised it, as `torch.nn.functional.embedding`; `kinds` are the names
    of its base classes, `caused_by` the errors that it follows from. `given` are the values at the failing call, and
    `around` the heads of the blocks that the user's line is in. `worker` names the process of a loader that it comes
    from; `forward` are the lines of the user that made what a backward pass fails on, and that changed it since.
    `is_of_empty_loop` if a name has no value that a loop above would have given it.
    """

    type: str
    message: str
    location: Location | None
    code: str = ""
    frames: tuple[str, ...] = ()
    reached: Location | None = None
    raised_in: str = ""
    kinds: tuple[str, ...] = ()
    caused_by: tuple[str, ...] = ()
    given: tuple[GivenValue, ...] = ()
    around: tuple[str, ...] = ()
    worker: str = ""
    forward: tuple[str, ...] = ()
    is_of_empty_loop: bool = False

    def contains(self, *texts: str) -> bool:
        """Whether the error, written as `Type: message`, holds one of the texts."""
        return any(text in f"{self.type}: {self.message}" for text in texts)


STAND_IN = "stand-in"
"""In place of the rule of a repair that is no fix: something that the probe put in place of what failed."""


class StandInKind(StrEnum):
    """What `--stand-ins` replaced: weights and tokenizers of the hub, rows, metrics, devices, packages, arguments."""

    MODEL = "model"
    DATA = "data"
    METRIC = "metric"
    DEVICE = "device"
    PACKAGE = "package"
    ARGUMENT = "argument"


@dataclass(frozen=True, slots=True)
class StandIn:
    """One thing that a script asked for and the machine lacks, and what a probe put in its place."""

    kind: StandInKind
    name: str
    by: str


@dataclass(frozen=True, slots=True)
class Repair:
    """What a probe changed in the script's text to go on after a failing stage: the fix of a confirmed finding.

    If no fix was known, a stand-in for the part that failed.
    """

    rule: str
    text: str
    location: Location

    @property
    def code(self) -> str:
        """The code that the fix writes, if its title names it: "`num_labels=3`"."""
        quoted = self.text.split("`")[1:2]
        return f"`{quoted[0]}`" if quoted else self.text


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of the probe: passed, failed (with its error) or not reached (with the reason); wall seconds."""

    name: StageName
    status: StageStatus
    seconds: float = 0.0
    reason: str = ""
    failure: Failure | None = None

    @classmethod
    def passed(cls, name: StageName, seconds: float = 0.0) -> Stage:
        """A stage that ran without an error."""
        return cls(name, StageStatus.PASSED, seconds)

    @classmethod
    def failed(cls, name: StageName, failure: Failure | None, seconds: float = 0.0, reason: str = "") -> Stage:
        """A stage that the script's own error ended; `reason` names the part of the stage, where it has parts."""
        return cls(name, StageStatus.FAILED, seconds, reason, failure)

    @classmethod
    def not_reached(cls, name: StageName, reason: str, seconds: float = 0.0) -> Stage:
        """A stage without a result; `reason` is written after a colon."""
        return cls(name, StageStatus.NOT_REACHED, seconds, reason)


class EndingKind(StrEnum):
    """Why nothing more was measured; the values are those of the evidence file."""

    MEASURED = "measured"
    """The run was measured to its end."""
    CRASHED = "crashed"
    """An error before any training call."""
    NO_TRAINING = "no-training"
    BY_HAND = "by-hand"
    """The script changes its weights without an optimizer."""
    ELSEWHERE = "elsewhere"
    """It trains in processes that it starts itself."""
    STOPPED = "stopped"
    """An error after a step that is in no loop."""
    EXITED = "exited"
    """The process ended without a final event, with an exit status."""
    KILLED = "killed"
    TIME = "time"
    MEMORY = "memory"
    DISK = "disk"
    REFUSED = "refused"
    """The script wrote past the guard of its files."""
    UNTRUSTED = "untrusted"
    """The script's process sent events that lintrain's own code does not send."""
    PROBE_FAILED = "probe-failed"
    NEEDS_FULL_DATA = "needs-full-data"
    """A shortcut turned out to be unsound; the parent starts another pass without it."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of one probe.

    `output` is the last part of what the script printed; `files` are the project's own files that it had loaded;
    `notes` name what a probe did not send, and whether the network was closed.
    """

    kind: EndingKind
    reason: str = ""
    seconds: float = 0.0
    output: str = ""
    files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
