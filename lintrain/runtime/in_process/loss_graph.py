"""What the graph of a loss shows before its backward pass: the weights it reaches, and its predictions and targets.

Samples are a few rows, copied at once, so that no graph is kept. Values on an accelerator are read when they have
arrived: no step waits for them.
"""

from __future__ import annotations

import math
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from lintrain.runtime.child.library import attribute, has, library
from lintrain.startup.lazy_dataclass import dataclass

MOST_NODES = 4_000
NEAR_NODES = 64
"""The nodes of a graph, from its loss on, in which its loss functions are looked for."""

MOST_HEADS = 4
MOST_ROWS = 32
MOST_SCORES = 2**16
"""The scores that are read of one sample: fewer rows of a large vocabulary."""


def leaves_of(loss: Any) -> list[Any]:
    """The tensors that a loss's backward pass gives gradients to, as far as a bounded walk reaches."""
    return [node.variable for node in nodes_of_loss(loss, MOST_NODES) if has(node, "variable")]


def nodes_of_loss(loss: Any, most: int) -> Iterator[Any]:
    """The nodes of a graph, those near the loss first."""
    first = attribute(loss, "grad_fn", None)
    waiting = deque([] if first is None else [first])
    seen = set(waiting)
    while waiting and len(seen) < most:
        node = waiting.popleft()
        yield node
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)
    yield from waiting


@dataclass(frozen=True, slots=True)
class Head:
    """A few rows of one loss function: `classes` for class numbers, 2 for yes and no, 0 for numbers.

    `values` is a tensor [3, rows]: predictions, targets, and the loss of each row. `ignored` is the class number that
    counts nothing; `is_mean` is whether the loss is the mean over rows, and no sum that grows with their number.
    """

    classes: int
    values: Any
    ignored: int | None = None
    is_mean: bool = True

    def marked(self, values: list[float]) -> list[float]:
        """The numbers of `values` as they were read, with -1 for each target that counts nothing.

        Compared here and not on the device, where each comparison costs more than a whole sample may.
        """
        if self.ignored is None:
            return values
        rows = len(values) // 3
        counts = (0 <= target < self.classes and target != self.ignored for target in values[rows : 2 * rows])
        targets = [target if is_scored else -1.0 for target, is_scored in zip(values[rows:], counts, strict=False)]
        return [*values[:rows], *targets, *values[2 * rows :]]


class GraphGoneError(Exception):
    """The backward pass has been made: it frees what a graph holds."""


def heads_of(loss: Any) -> list[Head]:
    """Samples of the loss functions near a loss; raises GraphGoneError after its backward pass."""
    found: list[Head] = []
    for node in nodes_of_loss(loss, NEAR_NODES):
        read = READERS.get(type(node).__name__)
        if read is None or len(found) == MOST_HEADS:
            continue
        try:
            head = read(node)
        except RuntimeError as error:  # also a target that was changed in place since
            raise GraphGoneError from error
        if head is not None:
            found.append(head)
    return found


def _class_numbers(node: Any) -> Head | None:
    """Cross-entropy: log-probabilities [rows, classes, ...] and class numbers [rows, ...]."""
    scores, targets = node._saved_self.detach(), node._saved_target.detach()
    if scores.ndim == 1:
        scores, targets = scores[None], targets.reshape(1)
    classes = int(scores.shape[1])
    most = max(4, min(MOST_ROWS, MOST_SCORES // classes))
    scores = scores.reshape(scores.shape[0], classes, -1)
    targets = targets.reshape(targets.shape[0], -1)
    rows, positions = _steps(targets.shape[0], targets.shape[1], most)
    scores, targets = scores[::rows, :, ::positions].movedim(1, 2).reshape(-1, classes), targets[::rows, ::positions]
    targets = targets.reshape(-1)
    losses = -scores.gather(1, targets.clamp(0, classes - 1)[:, None])[:, 0]
    read = library("torch").stack([scores.argmax(1).float(), targets.float(), losses.float()])
    return Head(classes, read, node._saved_ignore_index, is_mean=_is_mean(node))


def _yes_or_no(node: Any) -> Head | None:
    scores, targets = _strided(node._saved_self, node._saved_target)
    losses = library("torch.nn.functional").softplus(scores) - scores * targets
    return Head(2, library("torch").stack([(scores > 0).float(), targets, losses]), is_mean=_is_mean(node))


def _numbers(node: Any) -> Head | None:
    outputs, targets = _strided(node._saved_self, node._saved_target)
    losses = (outputs - targets) ** 2
    return Head(0, library("torch").stack([outputs, targets, losses]), is_mean=_is_mean(node))


MEAN = 1
"""The number of a mean among torch's reductions."""


def _is_mean(node: Any) -> bool:
    return bool(attribute(node, "_saved_reduction", MEAN) == MEAN)


READERS: dict[str, Callable[[Any], Head | None]] = {
    "NllLossBackward0": _class_numbers,
    "NllLoss2DBackward0": _class_numbers,
    "BinaryCrossEntropyWithLogitsBackward0": _yes_or_no,
    "MseLossBackward0": _numbers,
    "SmoothL1LossBackward0": _numbers,
    "HuberLossBackward0": _numbers,
}
"""Loss functions by the name that autograd gives them."""


def _steps(rows: int, positions: int, most: int) -> tuple[int, int]:
    """How many rows and positions to skip for about so many entries."""
    row_step = max(1, rows // most)
    kept = -(-rows // row_step)
    return row_step, max(1, positions * kept // most)


def _strided(outputs: Any, targets: Any) -> tuple[Any, Any]:
    """Evenly spaced entries of two tensors of one shape."""
    outputs, targets = outputs.detach(), targets.detach().expand_as(outputs)
    if outputs.ndim == 0:
        return outputs.reshape(1).float(), targets.reshape(1).float()
    rows = max(1, outputs.shape[0] // MOST_ROWS)
    outputs, targets = outputs[::rows].reshape(-1), targets[::rows].reshape(-1)
    step = max(1, outputs.shape[0] // MOST_ROWS)
    return outputs[::step].float(), targets[::step].float()


MOST_WEIGHTS = 16
ENTRIES = 64


class Fingerprint:
    """A few entries of some weights, spread over all of them: enough to see whether steps move anything.

    The weights are not kept alive.
    """

    def __init__(self, weights: list[Any]) -> None:
        step = max(1, len(weights) // MOST_WEIGHTS)
        self._weights = [weakref.ref(weight) for weight in weights[::step]]
        self._before = self._entries() or []

    def changes(self) -> Any:
        """A tensor that is not zero if any entry has changed since the last call."""
        torch = library("torch")
        now = self._entries()
        if not now:
            return torch.ones(())
        changed = [(before != after).any().float() for before, after in zip(self._before, now, strict=True)]
        self._before = now
        return torch.stack([each.to(changed[0].device) for each in changed]).max()

    def _entries(self) -> list[Any] | None:
        weights = [reference() for reference in self._weights]
        return None if None in weights else [_entries(weight).clone() for weight in weights]


def _entries(weight: Any) -> Any:
    """Every n-th entry in the order of memory; a sharded weight has its own part."""
    local = attribute(weight, "to_local", None)
    values = (local() if local is not None else weight).detach()
    if not values.is_contiguous():
        values = values.reshape(-1) if values.numel() <= ENTRIES else values[(0,) * (values.ndim - 1)]
    values = values.reshape(-1)
    return values[:: max(1, values.shape[0] // ENTRIES)]


def checksum(weights: list[Any]) -> tuple[float, ...]:
    """The sums of whole weights in double precision, without copies: steps that move few entries are seen too."""
    torch = library("torch")
    sums = [each for weight in weights for each in _sums(torch, weight)]
    return tuple(float(each) for each in sums)


def _sums(torch: Any, weight: Any) -> tuple[Any, Any]:
    values = weight.detach()
    return values.sum(dtype=torch.float64), torch.linalg.vector_norm(values, dtype=torch.float64)


def is_finite(weights: list[Any]) -> bool:
    """Whether all entries of weights are finite."""
    return all(math.isfinite(each) for each in checksum(weights))


MOST_WAITING = 64
AT_ONCE = "cpu"
"""The device whose values are read without waiting."""


GROUP, LONGEST_S = 16, 0.1
"""Numbers that are sent together, and the seconds after which they are sent in any case."""
Take = Callable[[list[float]], None]


class LateReader:
    """Reads small tensors in their order: those of the CPU at once, others when they have arrived there.

    Single numbers are gathered on their device and sent together: each copy costs more than many steps may.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[Any, Any, Take]] = deque()
        self._room: Any = None
        self._places: tuple[Any, ...] = ()
        self._gathered: list[Take] = []
        self._since = 0.0

    @property
    def waits(self) -> bool:
        """Whether anything is still on its way."""
        return bool(self._waiting or self._gathered)

    def add(self, values: Any, take: Take, *, is_alone: bool = False) -> None:
        """Read a tensor and pass its entries on, now or later; with `is_alone` it is not kept for others."""
        is_near = values.device.type == AT_ONCE
        if not is_near and not is_alone and values.numel() == 1:
            self._gather(values, take)
            return
        values = values.detach().reshape(-1)
        if is_near and not self._waiting:
            take(values.tolist())
        else:
            self.send()
            self._wait_for(values, take)

    def send(self) -> None:
        """Let what was gathered be on its way."""
        gathered, self._gathered = self._gathered, []
        if gathered:
            self._wait_for(self._room[: len(gathered)], lambda values: _hand_out(values, gathered))

    def read(self, *, must: bool = False) -> None:
        """Pass on what has arrived; everything with `must`, which waits for it."""
        if must or (self._gathered and time.perf_counter() - self._since > LONGEST_S):
            self.send()
        while self._waiting:
            values, arrival, take = self._waiting[0]
            if not must and not (arrival.query() if arrival is not None else values.device.type == "cpu"):
                return
            if arrival is not None:
                arrival.synchronize()
            self._waiting.popleft()
            take(values.tolist())

    def _gather(self, values: Any, take: Take) -> None:
        room = self._room
        torch = library("torch")
        if room is None or room.device != values.device or room.dtype != values.dtype:
            self.send()
            room = self._room = torch.empty(GROUP, dtype=values.dtype, device=values.device)
            self._places = room.split(1)
        if not self._gathered:
            self._since = time.perf_counter()
        # Copied now: the script may write into its loss, or replay a graph of CUDA into the same memory. One operation
        # and no views, since this is done at each step, and on a GPU launching one takes up to 30 microseconds.
        with torch.no_grad():
            self._places[len(self._gathered)].copy_(values if values.ndim < 2 else values.reshape(-1))
        self._gathered.append(take)
        if len(self._gathered) == GROUP:
            self.send()

    def _wait_for(self, values: Any, take: Take) -> None:
        self._waiting.append((*_on_its_way(values), take))
        self.read(must=len(self._waiting) > MOST_WAITING)


def _hand_out(values: list[float], takes: list[Take]) -> None:
    for value, take in zip(values, takes, strict=True):
        take([value])


def _on_its_way(values: Any) -> tuple[Any, Any]:
    """A copy that CUDA makes in passing, with the event of its arrival; else a copy on the same device."""
    torch = library("torch")
    if values.device.type != "cuda":
        return values.clone(), None
    host = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
    host.copy_(values, non_blocking=True)
    arrival = torch.cuda.Event()
    arrival.record(torch.cuda.current_stream(values.device))
    return host, arrival
