"""Networks that are not trained, whose answers to the rows of a batch a loss follows: are they the same twice?"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from lintrain.model.location import Location
from lintrain.runtime.child.library import library
from lintrain.runtime.measure.calls import Call
from lintrain.runtime.measure.replay import as_it_was, difference, largest
from lintrain.runtime.measure.seen import Forward, Iteration, memory_of, tensors_in

MOST_WEIGHTS = 8
"""Weights whose sums show whether the script changes a network between two batches."""
NEARLY = 1e-4
"""Answers that differ by less, as a share of the largest, do so by rounding."""
ON_PURPOSE = re.compile(r"mc(?=_|[A-Z])|monte|bayes|uncertain|nois|augment", re.IGNORECASE)

Tell = Callable[[str, Location], None]


class Teachers:
    """Those that were seen, with the sums of their weights; `tell` is called for one whose answers are random."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._sums: weakref.WeakKeyDictionary[Any, tuple[float, ...]] = weakref.WeakKeyDictionary()
        self._asked: weakref.WeakSet[Any] = weakref.WeakSet()

    def on_backward_start(self, iteration: Iteration, held: set[int]) -> None:
        """A loss goes backward; optimizers hold these weights."""
        students = [each for each in iteration.forwards if each.records]
        read = memory_of([(each.args, each.kwargs) for each in students])
        for forward in iteration.forwards:
            if forward.records or not any(forward.modes) or forward.module in self._asked:
                continue
            # What it gives is compared with the answers to the same rows, and not read by the trained network.
            is_beside = not read.isdisjoint(memory_of((forward.args, forward.kwargs)))
            if is_beside and read.isdisjoint(memory_of(forward.output)) and not _is_held(forward.module, held):
                self._ask(forward)

    def _ask(self, forward: Forward) -> None:
        sums = tuple(float(each.detach().sum()) for each in [*forward.module.parameters()][:MOST_WEIGHTS])
        before = self._sums.setdefault(forward.module, sums)
        if before is sums:
            return
        self._asked.add(forward.module)
        # Weights that change are averages of the trained ones: such a teacher may be random on purpose.
        if sums != before or ON_PURPOSE.search(type(forward.module).__name__) or forward.location is None:
            return
        with suppress(Exception):
            one, two = (_answers(forward) for _ in range(2))
            apart = difference(one, two, largest(one))
            if apart is not None and apart > NEARLY:
                dropped = sum(forward.modes)
                self._tell(
                    f"two answers of `{type(forward.module).__name__}` to one batch differ by {apart:.0%} of the"
                    f" largest entry, with {dropped} layers in train mode",
                    forward.location,
                )


def _is_held(module: Any, held: set[int]) -> bool:
    return any(id(weight) in held for weight in module.parameters())


def _answers(forward: Forward) -> tuple[Any, ...]:
    """What a module gives in the modes that its parts are in; its averages are put back."""
    call, modes = Call(forward.called, forward.args, forward.kwargs).changed({}), list(forward.module.modules())
    trained = [part.training for part in modes]
    with as_it_was(forward.module), library("torch").no_grad():
        for part, is_training in zip(modes, trained, strict=True):
            part.training = is_training
        return tuple(tensor for tensor in tensors_in(call.module(*call.args, **call.kwargs)))
