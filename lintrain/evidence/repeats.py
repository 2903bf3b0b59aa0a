"""What a probe measures by starting a script more than once, each time in a fresh process.

What a probe measures of the processes of one training, rank by rank.
"""

from __future__ import annotations

import math

from lintrain.model.location import Location
from lintrain.startup.lazy_dataclass import dataclass

CLOSE = 0.02
"""Of the first loss: noise between batches is of this size."""
NEAR = 1e-5
"""Two losses within this share of each other are equal: sums on several threads are not always in one order."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The first steps with one value of a setting: their losses, the highest learning rate in them, and their error."""

    value: str
    losses: tuple[float, ...] = ()
    highest_rate: float | None = None
    error: str = ""

    @property
    def last(self) -> float:
        """The mean loss of the last quarter of its steps."""
        few = self.losses[-max(1, len(self.losses) // 4) :]
        return sum(few) / len(few) if few else math.nan


@dataclass(frozen=True, slots=True)
class TrialsEvidence:
    """Short runs with several values of the setting `name`, each in a fresh process from the same random numbers.

    `where` says how the script gets it, `steps` how many were wanted. `same_batches`: all runs trained on the same
    batches in the same order; None where no batch was seen.
    """

    name: str
    where: str
    steps: int
    trials: tuple[Trial, ...]
    same_batches: bool | None = None

    @property
    def best(self) -> Trial | None:
        """The trial with the lowest loss at its end, of at least two that ran as far."""
        most = max((len(trial.losses) for trial in self.trials), default=0)
        whole = [trial for trial in self.trials if len(trial.losses) == most and math.isfinite(trial.last)]
        return min(whole, key=lambda trial: trial.last) if most and len(whole) > 1 else None

    @property
    def are_alike(self) -> bool:
        """Whether the losses of all end so close to each other that a few steps do not tell them apart."""
        ran = [trial for trial in self.trials if trial.losses]
        ends = [trial.last for trial in ran]
        return len(ran) > 1 and max(ends) - min(ends) < CLOSE * abs(ran[0].losses[0])


@dataclass(frozen=True, slots=True)
class CheckpointEvidence:
    """The step after a checkpoint, in the run that saved it and in a fresh process that resumes from it.

    `saved_after` steps; `files` of the checkpoint by size in bytes. `weights`, `optimizer_state` count the tensors of
    the run that saved; `changed_weights`, `lost_state`, `changed_state` name those that differ, or are missing, in the
    other one. `learning_rates`, `losses` are of the run that saved, then of the one that resumed. `generators` name the
    random generators that were drawn from and have another state. `repeated_rows` of the `rows` of the resumed step
    were trained on before the checkpoint and would not have come now; `same_batch` is None where no model was seen to
    be called. `resumes_by` says who reads the checkpoint: `library`, or `script` where the script's own code does.
    `scales` are those of the GradScaler, None if there is none, `steps_since_growth` its steps since it changed them.
    `resume_is_asked` is False where the script itself never asks the library to resume. `restarted` name the
    generators that have the state of the first step again, `repeats_step` the step whose rows come once more in their
    order, from 1.
    """

    saved_after: int
    resumes_by: str
    files: dict[str, int]
    weights: int
    changed_weights: tuple[str, ...]
    optimizer_state: int
    lost_state: tuple[str, ...]
    changed_state: tuple[str, ...]
    learning_rates: tuple[float, float]
    losses: tuple[float, float]
    generators: tuple[str, ...] = ()
    same_batch: bool | None = None
    rows: int = 0
    repeated_rows: int = 0
    scales: tuple[float | None, float | None] = (None, None)
    steps_since_growth: tuple[int, int] = (0, 0)
    resume_is_asked: bool = True
    restarted: tuple[str, ...] = ()
    repeats_step: int | None = None

    @property
    def has_same_scaler(self) -> bool:
        """Whether the gradient scaler continues unchanged, with its count of steps; True if there is none."""
        before, growth = self.scales[0], self.steps_since_growth
        return before is None or (before == self.scales[1] and growth[0] == growth[1])

    @property
    def same_loss(self) -> bool:
        """Whether the next loss is that of the uninterrupted run."""
        return are_same(*self.losses)

    @property
    def differences(self) -> tuple[str, ...]:
        """The parts that differ in the resumed run, each with its numbers."""
        before, after = self.learning_rates
        lost, changed = len(self.lost_state), len(self.changed_state)
        parts = {
            f"{len(self.changed_weights)} of {self.weights} weights": bool(self.changed_weights),
            f"{lost + changed} of {self.optimizer_state} optimizer tensors": bool(lost + changed),
            f"learning rate {after:.3g}, not {before:.3g}": not are_same(before, after),
            self._scaler_in_words: not self.has_same_scaler,
            f"random numbers of {', '.join(self.generators)}": bool(self.generators),
            f"{self.repeated_rows} of {self.rows} rows seen before": bool(self.repeated_rows),
            "another batch": self.same_batch is False and not self.repeated_rows,
        }
        return tuple(text for text, is_so in parts.items() if is_so)

    @property
    def _scaler_in_words(self) -> str:
        before, after = self.scales
        if before is None:
            return ""
        if after is None:
            return f"no gradient scaler, where one was at {before:.6g}"
        steps = f"{self.steps_since_growth[1]} steps after it changed, not {self.steps_since_growth[0]}"
        return f"scale {after:.6g} of the gradient scaler, {steps}" + ("" if after == before else f", not {before:.6g}")


def are_same(one: float, other: float) -> bool:
    """Whether two measured numbers are equal except for rounding; NaN equals NaN."""
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return math.isclose(one, other, rel_tol=NEAR, abs_tol=1e-12)


@dataclass(frozen=True, slots=True)
class DeterminismEvidence:
    """The first steps of a script, started twice in fresh processes that share nothing.

    `losses` are those of each start, step by step. `different_weights` of all `weights` are not the same before the
    first step; `different_batches` of as many `batches` as steps are not, None where no model was seen to be called;
    `same_rows` says whether these are of the same rows, None where that is not known. `generators` name the random
    generators that were drawn from and have another state before the first step.
    """

    losses: tuple[tuple[float, ...], tuple[float, ...]]
    weights: int
    different_weights: tuple[str, ...]
    batches: int
    different_batches: int | None
    same_rows: bool | None
    generators: tuple[str, ...] = ()

    @property
    def same_losses(self) -> bool:
        """Whether both runs give the same losses, except for rounding."""
        return all(are_same(one, other) for one, other in zip(*self.losses, strict=False))

    @property
    def first_losses(self) -> tuple[float, float]:
        """The loss of the first step in each start."""
        return self.losses[0][0], self.losses[1][0]

    @property
    def sources(self) -> tuple[str, ...]:
        """What differs between the starts before anything is computed, each with its numbers."""
        rows = {True: "made of the same rows", False: "of other rows", None: "the model is given"}[self.same_rows]
        parts = {
            f"{len(self.different_weights)} of {self.weights} weights before the first step": bool(
                self.different_weights
            ),
            f"{self.different_batches} of {self.batches} batches, {rows}": bool(self.different_batches),
            f"random numbers of {', '.join(self.generators)}": bool(self.generators),
        }
        return tuple(text for text, is_so in parts.items() if is_so)

    @property
    def repeats(self) -> bool:
        """Whether a second run does the same as the first."""
        return self.same_losses and not self.sources


@dataclass(frozen=True, slots=True)
class RankWrite:
    """A file that the script wrote in a training of several processes: the ranks that did, and where in its code."""

    path: str
    location: Location | None
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RankGather:
    """What one round of an evaluation gathered from all ranks at one location: the shortened round, with its last
    batch.

    `function` is the one of accelerate that gathered `gathered` rows; the loaders of all ranks had `fetched` rows
    together, of which `rows` are different ones: the others only fill up the last batches.
    """

    location: Location
    function: str
    gathered: int
    fetched: int
    rows: int


@dataclass(frozen=True, slots=True)
class RankSchedule:
    """A learning-rate schedule on several processes: its steps in one step of the optimizer, and where it ends.

    `length` is the number of its own steps after which it ends, None if it is not known.
    """

    name: str
    steps_per_update: int
    length: int | None


@dataclass(frozen=True, slots=True)
class RankWait:
    """A rank that waits for the others until the pass is ended: in which function, and where in the script.

    `calls` are those that each rank has made of this function at this location, in the order of the ranks; none where
    the calls of the function are not counted (a backward pass). `is_unmatched` if another rank has made fewer of them.
    """

    rank: int
    function: str
    location: Location | None
    calls: tuple[int, ...] = ()

    @property
    def is_unmatched(self) -> bool:
        """Whether another rank has not come to this call."""
        return bool(self.calls) and min(self.calls) < self.calls[self.rank]


@dataclass(frozen=True, slots=True)
class RankPrint:
    """A location of the script that prints in a training of several processes, and the ranks that do."""

    location: Location
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RanksEvidence:
    """The first steps of a script that torch's own launcher started on two processes, rank by rank.

    `different_weights` of all `weights` are not the same before the first step, `different_gradients` of all
    `gradients` after its backward pass; `without_gradient` got none. `apart` are the trained weights that are not the
    same before the last step that was compared. `rows` are those that each rank trained on in `steps` steps,
    `shared_rows` of them were trained on by both, None where they are not known; `same_batches` of all steps were made
    of the same numbers on both. `batches` and `dataset_rows` are the lengths of each rank's loader and data set, None
    for a stream; `same_dataset` says whether rows from all over it are the same, None where they cannot be read twice
    alike. `is_joined` says whether the processes had formed a group when they stepped; `keeps_apart` names what the
    script uses that lets weights differ for a while or for good (sharding, occasional averaging), else empty. `failure`
    is the error that a rank ended with after its first step, else empty. `waits` are the ranks that wait for others
    which are done or wait elsewhere, `collectives` where any rank has called one and gone on. `losses` are those of
    each rank, step by step; `prints` what more than one of them prints in the steps. `batch_norms` are the layers that
    normalize with the rows of one process alone. `contents` of the rows of each rank were read, of which
    `shared_contents` are in both data sets.
    """

    processes: int
    steps: int
    weights: int
    different_weights: tuple[str, ...]
    gradients: int
    different_gradients: tuple[str, ...]
    without_gradient: tuple[str, ...]
    rows: tuple[int, ...]
    shared_rows: int | None
    batches: tuple[int | None, ...]
    dataset_rows: tuple[int | None, ...]
    same_dataset: bool | None
    writes: tuple[RankWrite, ...] = ()
    gathers: tuple[RankGather, ...] = ()
    schedules: tuple[RankSchedule, ...] = ()
    apart: tuple[str, ...] = ()
    same_batches: int = 0
    is_joined: bool = False
    keeps_apart: str = ""
    failure: str = ""
    waits: tuple[RankWait, ...] = ()
    collectives: tuple[Location, ...] = ()
    losses: tuple[tuple[float, ...], ...] = ()
    prints: tuple[RankPrint, ...] = ()
    batch_norms: int = 0
    batch_sizes: tuple[int | None, ...] = ()
    contents: tuple[int, ...] = ()
    shared_contents: int = 0

    @property
    def used_rows(self) -> int | None:
        """How many rows all processes go through in an epoch, as the lengths of their loaders show."""
        lengths = [*self.batches, *self.batch_sizes, *self.dataset_rows]
        if not self.batch_sizes or any(each is None for each in lengths):
            return None
        return sum((batches or 0) * (size or 0) for batches, size in zip(self.batches, self.batch_sizes, strict=True))

    @property
    def divides_rows(self) -> bool:
        """Whether each process goes through its part of a data set only, as the lengths of the loaders show."""
        used, least = self.used_rows, min((each or 0 for each in self.dataset_rows), default=0)
        return used is not None and used <= least + sum(size or 0 for size in self.batch_sizes)

    @property
    def overlap(self) -> float:
        """The estimated share of the rows of one process that another one has too; 0 if they were not read."""
        total = max((rows or 0 for rows in self.dataset_rows), default=0)
        if not self.contents or not min(self.contents) or not total:
            return 0.0
        return min(1.0, self.shared_contents * total / math.prod(self.contents[:2]))

    def writes_at(self, location: Location) -> tuple[RankWrite, ...]:
        """The files that were written at a location of the script."""
        return tuple(write for write in self.writes if write.location and _is_at(write.location, location))

    def waits_at(self, location: Location) -> tuple[RankWait, ...]:
        """The ranks that wait at a location of the script for others that have not come to it."""
        return tuple(
            wait for wait in self.waits if wait.is_unmatched and wait.location and _is_at(wait.location, location)
        )

    def calls_at(self, location: Location) -> bool:
        """Whether any rank called a collective of all processes there, and went on."""
        return any(_is_at(each, location) for each in self.collectives)

    def gather_at(self, location: Location) -> RankGather | None:
        """What was gathered at a location of the script, or None if no round of it was followed to its end."""
        return next((gather for gather in self.gathers if _is_at(gather.location, location)), None)


def _is_at(seen: Location, claimed: Location) -> bool:
    return seen.path == claimed.path and claimed.line <= seen.line <= claimed.end_line
