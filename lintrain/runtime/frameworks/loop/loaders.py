"""The loaders of a loop: how they make batches, and in which order.

The throughput stage of a loop of the script's own: its batches and steps, timed as they happen.

A run that trains on data loaders of torch.
"""

from __future__ import annotations

import re
from abc import ABC
from collections import Counter
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import Any

from lintrain.evidence.run import LoaderUse, SplitEvidence, Stage, StageName
from lintrain.model.location import Location
from lintrain.runtime.child.frames import made_at
from lintrain.runtime.child.hooks import Given
from lintrain.runtime.child.library import attribute
from lintrain.runtime.child.measured_run import MeasuredRun
from lintrain.runtime.child.probe_session import ProbeSession
from lintrain.runtime.measure.columns import measure_split
from lintrain.runtime.measure.pace import WARM_UP, Pace, new_profile, synchronizing, top_operators
from lintrain.runtime.measure.seen import Iteration, has_rows, number_of_rows
from lintrain.runtime.measure.swept_rows import Reading

WHOLE_NUMBER = re.compile(r"\d+")


class Loaders:
    """The epoch of each loader's sampler, whenever the loader was iterated."""

    def __init__(self, session: ProbeSession) -> None:
        self.timed = TimedSteps(session)
        self._epochs: dict[int, list[int]] = {}
        self._gave_lone_row = False
        self._ended_early: list[tuple[int, int]] = []

    def on_loader_start(self, loader: Any) -> None:
        """A loader begins a round."""
        epoch = attribute(_sampler_of(loader), "epoch", None)
        if isinstance(epoch, int):
            self._epochs.setdefault(id(loader), []).append(epoch)

    def on_early_end(self, loader: Any, taken: int) -> None:
        """A loader ends after so many batches, though it has more of them."""
        rows, size = _rows_in(loader), attribute(loader, "batch_size", None)
        if rows is not None and size and taken * size < rows:
            self._ended_early.append((taken * size, rows))

    def caused(self, error: BaseException) -> bool:
        """Whether an error compares the rows of a loader that ended early with all of its rows, as a metric does
        whose labels are no batches.
        """
        numbers = {int(number) for number in WHOLE_NUMBER.findall(str(error))}
        # An index beyond the rows that were given names these alone.
        is_beyond = isinstance(error, IndexError)
        return any(given in numbers and (is_beyond or rows in numbers) for given, rows in self._ended_early)

    def lone_row(self, loader: Any) -> Any:
        """The last batch of a plain loader whose rows leave one for it; None for others, and after the first time."""
        if self._gave_lone_row or not type(loader).__module__.startswith("torch.utils.data"):
            return None
        rows, size = _rows_in(loader), attribute(loader, "batch_size", None)
        # `[8, 8, 1]` for 17 rows: only a remainder of one row breaks batch normalization in training mode.
        if rows is None or not size or size < 2 or rows < size or rows % size != 1 or loader.drop_last:
            return None
        self._gave_lone_row = True
        try:
            # Made without the sampler, which would otherwise be a batch further than the script expects.
            return loader.collate_fn([loader.dataset[rows - 1]])
        except Exception:  # noqa: BLE001 - the loop ends without it, as it does with other loaders
            return None

    def use_of(self, loader: Any) -> LoaderUse | None:
        """What is known of a loader; None if the loop has none."""
        if loader is None:
            return None
        sampler = _sampler_of(loader)
        return LoaderUse(
            batches=length_of(loader),
            batch_size=attribute(loader, "batch_size", None),
            drops_last=bool(attribute(loader, "drop_last", False)),
            sampler=type(sampler).__name__,
            epochs_told=tuple(self._epochs.get(id(loader), ())),
            shuffles=bool(attribute(sampler, "shuffle", False)),
            has_lone_row=self._gave_lone_row,
            made_at=made_at(loader),
            sampler_at=made_at(sampler),
            rows=_rows_in(loader),
        )


def _sampler_of(loader: Any) -> Any:
    batches = attribute(loader, "batch_sampler", None)
    sampler = attribute(loader, "sampler", None)
    # A script's own class that makes batches may have none; the loader's then is a plain one that no one asks.
    return sampler if batches is None else attribute(batches, "sampler", batches)


def _rows_in(loader: Any) -> int | None:
    """The rows of an epoch, if every row of a data set that gives them by number comes once."""
    sampler, dataset = attribute(loader, "sampler", None), attribute(loader, "dataset", None)
    rows = number_of_rows(dataset) if dataset is not None and has_rows(dataset) else None
    is_plain = type(sampler).__name__ in ("RandomSampler", "SequentialSampler")
    return rows if is_plain and rows == length_of(sampler) else None


def length_of(loader: Any) -> int | None:
    """The batches of a loader, or the rows of a sampler; None for those of a stream."""
    try:
        return len(loader)
    except TypeError:  # a loader of a stream has no length
        return None


DRAWS_ALL = frozenset({"RandomSampler", "SequentialSampler", "DistributedSampler"})


def reading_of(loader: Any) -> Reading:
    """Which rows a loader draws, and what makes a batch of them."""
    collate, sampler = attribute(loader, "collate_fn", None), _sampler_of(loader)
    rows = _drawn(sampler)
    known = type(sampler).__name__ in DRAWS_ALL or rows is not None
    # A script's own sampler may put rows of one length together, or leave the broken ones out.
    batches = type(attribute(loader, "batch_sampler", None)).__name__
    mixes = (
        known and batches in ("BatchSampler", "BatchSamplerShard") and (attribute(loader, "batch_size", None) or 2) > 1
    )
    name = f"`{attribute(collate, '__name__', type(collate).__name__)}`"
    return Reading(rows, collate, mixes, name, draws_all=known)


def _drawn(sampler: Any) -> list[int] | None:
    """The rows that a sampler of torch chooses from, None for all."""
    match type(sampler).__name__:
        case "SubsetRandomSampler":
            return [int(row) for row in sampler.indices]
        case "WeightedRandomSampler":
            return [row for row, weight in enumerate(sampler.weights.tolist()) if weight > 0]
        case _:
            return None


PROFILED = WARM_UP + 2
"""The number of the batch whose step is profiled, and not timed."""


class TimedSteps:
    """Times the loop's requests for batches and their arrivals, until training is over."""

    def __init__(self, session: ProbeSession) -> None:
        self._is_wanted = StageName.THROUGHPUT in session.also
        self._pace = Pace()
        self._calls = Counter[str]()
        self._stack = ExitStack()
        self._profile: Any = None
        self._operators: tuple[tuple[str, float], ...] = ()
        self._loader: Any = None

    def on_batch_request(self, loader: Any) -> None:
        """The loop asks for its next batch."""
        if not self._times(loader):
            return
        if self._profile is not None:
            self._profile.__exit__(None, None, None)
            self._operators, self._profile = top_operators(self._profile), None
            self._is_wanted = False
        else:
            self._pace.on_batch_request()

    def on_batch(self, loader: Any) -> None:
        """The loop got it."""
        if not self._times(loader):
            return
        if self._loader is None:
            self._loader = loader
            self._stack.enter_context(synchronizing(self._calls))
        self._pace.on_batch()
        if len(self._pace.loading) >= PROFILED:
            self._profile = new_profile()
            self._profile.__enter__()

    def _times(self, loader: Any) -> bool:
        return self._is_wanted and self._loader in (None, loader)

    @contextmanager
    def left_out(self) -> Generator[None]:
        """The probe works now: this is not timed, and its calls are not counted."""
        # Restored below: measurements read numbers off tensors, which would count as synchronizing calls of the script.
        calls = Counter(self._calls)
        with self._pace.left_out():
            yield
        self._calls.clear()
        self._calls.update(calls)

    def record(self, run: MeasuredRun, iteration: Iteration) -> None:
        """Training is over: report the times."""
        if not run.is_asked(StageName.THROUGHPUT) or StageName.THROUGHPUT in run.statuses:
            return
        self._is_wanted = False
        self._stack.close()
        workers = int(attribute(self._loader, "lintrain_workers", 0))
        found = self._pace.evidence(iteration.rows(), iteration.tokens(), workers, self._calls, self._operators)
        if found is None:
            run.skip(StageName.THROUGHPUT, "the loop took too few batches from its loader")
            return
        run.measured(throughput=found)
        run.record(Stage.passed(StageName.THROUGHPUT, sum(self._pace.loading) + sum(self._pace.stepping)))


class LoaderRun(MeasuredRun, ABC):
    """`loader` is the one that is trained on, None if there is none; `limit` the norm that gradients are clipped to."""

    def __init__(self, session: ProbeSession, call: Location | None) -> None:
        super().__init__(session, call)
        self.loader: Any = None
        self.limit: float | None = None
        self._splits: list[SplitEvidence] = []

    @property
    def collator(self) -> Any:
        """The loader's `collate_fn`."""
        return attribute(self.loader, "collate_fn", None)

    @property
    def clipped_at(self) -> float | None:
        """The norm that the script clips to."""
        return self.limit

    def measure_split(self, argument: str, loader: Any) -> None:
        """Describe the data set of a loader."""
        dataset = attribute(loader, "dataset", None)
        if dataset is not None:
            self._splits.append(measure_split(self, Given(argument, dataset), reading_of(loader)))
            self.measured(splits=self._splits)
