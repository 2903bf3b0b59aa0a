"""What a whole run has shown so far, in bounded memory: its losses, steps, rates, norms, predictions, evaluations."""

from __future__ import annotations

import math
import sys
from array import array
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import field
from statistics import mean, median

from lintrain.doctor.record import Point
from lintrain.startup.lazy_dataclass import dataclass

BLOCK = 20
"""Losses of which one median is kept for good."""

FIRST, ROWS_NOW = 8, 200
"""The samples at the beginning, and the rows at the end, whose losses are compared."""

SCALED = 10
RECENT = 400
KEPT_SAMPLES = 120


@dataclass(slots=True)
class Sample:
    """A few rows of one batch: predicted and true classes, or numbers, and the sum of the rows' losses."""

    step: int
    predictions: Sequence[float]
    targets: Sequence[float]
    losses: Sequence[float]


@dataclass(slots=True)
class HeadHistory:
    """The last samples of one loss function; `was_varied` once several classes were predicted in one window.

    `unscored` counts the last samples without any target that counts, after samples that had some. `scales` are the
    mean sizes of targets that are numbers, one for each `SCALED` samples.
    """

    classes: int
    samples: deque[Sample] = field(default_factory=lambda: deque[Sample](maxlen=KEPT_SAMPLES))
    is_scored: bool = False
    is_mean: bool = True
    first: float = math.nan
    unscored: int = 0
    unscored_since: int = 0
    was_varied: bool = False
    read: int = 0
    scales: array[float] = field(default_factory=lambda: array("d"))

    def add(self, step: int, values: Sequence[float]) -> None:
        """A sample: predictions, targets and losses of its rows, one after the other; -1 is a target left out."""
        rows = len(values) // 3
        predictions, targets, losses = values[:rows], values[rows : 2 * rows], values[2 * rows :]
        kept = [at for at in range(rows) if not self.classes or targets[at] >= 0]
        if not kept:
            self.unscored_since = self.unscored_since if self.unscored else step
            self.unscored += 1
            return
        self.unscored, self.is_scored = 0, True
        self.read += 1
        chosen = [[part[at] for at in kept] for part in (predictions, targets, losses)]
        self.samples.append(Sample(step, *chosen))
        if self.read == FIRST:
            self.first = median(self.rows("losses"))
        if not self.classes and self.read % SCALED == 0:
            self.scales.append(mean(abs(value) for each in list(self.samples)[-SCALED:] for value in each.targets))

    def grows(self) -> bool:
        """Whether its rows have larger losses than the first ones had, as far as that is known."""
        return not math.isfinite(self.first) or mean(self.rows("losses")[-ROWS_NOW:]) > self.first

    def rows(self, part: str) -> list[float]:
        """The values of the window in one list."""
        return [value for sample in self.samples for value in getattr(sample, part)]

    def shares(self, part: str) -> Counter[float]:
        """How often each class occurs in the window."""
        return Counter(value for sample in self.samples for value in getattr(sample, part))


class Norms:
    """Gradient norms as far as they were sampled: the largest, the last one, and since when they are 0."""

    def __init__(self) -> None:
        self.count = self.zeros = self.bad = 0
        self.zero_since = self.bad_since = 0
        self.largest = 0.0
        self.last = math.nan

    def add(self, step: int, norm: float) -> None:
        """A norm that was read."""
        self.last = norm
        self.count += 1
        if norm == 0:
            self.zero_since = self.zero_since if self.zeros else step
        if not math.isfinite(norm):
            self.bad_since = self.bad_since if self.bad else step
        self.zeros = self.zeros + 1 if norm == 0 else 0
        self.bad = 0 if math.isfinite(norm) else self.bad + 1


class Rates:
    """The learning rates of the steps: their peak, since when they have vanished, and whether they are rising."""

    def __init__(self) -> None:
        self.peak = self.last = 0.0
        self.vanished = self.vanished_since = self.count = 0
        self._earlier = deque[float](maxlen=100)

    def add(self, step: int, rate: float) -> None:
        """The largest rate of a step's groups."""
        self._earlier.append(rate)
        self.count += 1
        self.peak, self.last = max(self.peak, rate), rate
        is_gone = rate <= VANISHED * self.peak
        self.vanished_since = self.vanished_since if self.vanished else step
        self.vanished = self.vanished + 1 if is_gone else 0

    @property
    def is_rising(self) -> bool:
        """Whether the rate was lower a while ago, or is small against its peak."""
        return bool(self._earlier) and (self.last > 1.02 * self._earlier[0] or self.last < 0.02 * self.peak)


ALIKE = 0.999
"""The mean of directions is so long where any two of them have a cosine of about 0.998; trained ones are far apart."""

VANISHED = 1e-8
"""A rate that is so small a share of its peak moves no weight; a schedule passes this only in its last steps."""


class History:
    """The losses of one place of a loop; `step` counts from 1.

    `blocks` are medians of 20 losses each, `recent` the last losses with their steps. `accumulates`: an optimizer steps
    once for several losses, and it is its steps that are counted.
    """

    def __init__(self) -> None:
        self.count = 0
        self.recent: deque[tuple[int, float]] = deque(maxlen=RECENT)
        self.blocks, self.block_steps = array("d"), array("q")
        self._block: list[float] = []
        self.largest = 0.0
        self.is_negative = False
        self.same = 0
        self.bad = self.bad_since = 0
        self.spike: tuple[int, float, float] | None = None
        self.heads: dict[int, HeadHistory] = {}
        self.norms, self.rates = Norms(), Rates()
        self.norm_spike: tuple[int, float, float] | None = None
        self.evaluations: list[Point] = []
        self.unmoved = self.unmoved_since = 0
        self.without = self.without_since = 0
        self.alike = self.alike_since = 0
        self.accumulates = False

    def named(self, step: int) -> str:
        """A step as a message names it: a loop that accumulates gradients calls its batches steps, too."""
        return f"optimizer step {step:,}" if self.accumulates else f"step {step:,}"

    @property
    def limit(self) -> float:
        """A loss up to which none of the next ones can be a spike."""
        is_near = self.count > SETTLED - BLOCK
        return FAR * self.largest if is_near and not self.is_negative and self.largest > 0 else sys.float_info.max

    def add(self, step: int, loss: float) -> None:
        """A loss that was read."""
        self.count += 1
        if not math.isfinite(loss):
            self.bad_since = self.bad_since if self.bad else step
            self.bad += 1
            return
        self.bad = 0
        if self.count > SETTLED and not self.is_negative and loss > FAR * self.largest > 0:
            self.spike = (step, loss, self.largest)
        self.same = self.same + 1 if self.recent and self.recent[-1][1] == loss else 0
        self.largest = max(self.largest, loss)
        self.is_negative |= loss < 0
        self.recent.append((step, loss))
        self._block.append(loss)
        if len(self._block) == BLOCK:
            self.blocks.append(median(self._block))
            self.block_steps.append(step)
            self._block.clear()

    def add_norm(self, step: int, norm: float) -> None:
        """A gradient norm that was read."""
        norms = self.norms
        if norms.count > SETTLED and math.isfinite(norm) and norm > FAR * norms.largest > 0:
            self.norm_spike = (step, norm, norms.largest)
        norms.add(step, norm)
        norms.largest = max(norms.largest, norm if math.isfinite(norm) else 0.0)

    def add_without_gradients(self, step: int, count: int) -> None:
        """An optimizer whose weights have no gradient steps, the `count`th time in a row among the sampled steps."""
        self.without_since = step if count == 1 else self.without_since
        self.without = count

    def add_alikeness(self, step: int, share: float | None) -> None:
        """How alike the embeddings of different rows are, 1 if they are the same but for their length."""
        if share is None:
            return
        self.alike_since = self.alike_since if self.alike else step
        self.alike = self.alike + 1 if share > ALIKE else 0

    def add_samples(
        self, step: int, number: int, classes: int, values: Sequence[float], *, is_mean: bool = True
    ) -> None:
        """A sample of the loss function with this number."""
        head = self.heads.get(number)
        if head is None or head.classes != classes:
            head = self.heads[number] = HeadHistory(classes)
        head.is_mean = is_mean
        head.add(step, values)

    def add_evaluation(self, step: int, losses: Iterable[float]) -> None:
        """The mean loss of one evaluation."""
        found = [loss for loss in losses if math.isfinite(loss)]
        if found:
            self.evaluations.append(Point(step, sum(found) / len(found)))

    @property
    def start(self) -> float:
        """The loss at the beginning: the median of the first losses; NaN before there are enough."""
        return self.blocks[0] if self.blocks else math.nan

    @property
    def best(self) -> tuple[int, float]:
        """The step and value of the lowest median."""
        at = min(range(len(self.blocks)), key=self.blocks.__getitem__)
        return self.block_steps[at], self.blocks[at]

    def last(self, number: int) -> list[float]:
        """The last losses, the newest at the end."""
        return [loss for _, loss in list(self.recent)[-number:]]


SETTLED = 100
FAR = 10.0
"""A jump is so many times the largest value before: losses and norms with heavy tails grow by less."""
