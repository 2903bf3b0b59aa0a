"""Two players of one game: what the training of each does to the scores that one of them gives the other's rows.

A judge scores real rows and made ones, and its own loss moves the two in opposite directions. The loss of the maker has
to move the scores of its rows the other way.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

from lintrain.model.location import Location
from lintrain.runtime.measure.seen import Forward, memory_of, tensors_in
from lintrain.startup.lazy_dataclass import dataclass

FEWEST_ROWS, TURNS = 8, 2
MOST = 16
"""Passes that are remembered."""

Tell = Callable[[str, Location], None]


@dataclass(eq=False)
class Scored:
    """One pass of a module: its rows, whether they carry a graph, and the signs that a loss gives its scores.

    `pushed` is 1 if the loss lowers every score, -1 if it raises every one, 0 if it does both; None before.
    """

    module: Any
    rows: frozenset[int]
    is_made: bool
    location: Location | None
    pushed: int | None = None

    def on_gradient(self, gradient: Any) -> None:
        """The gradient of a loss with regard to the scores."""
        if self.pushed is None and gradient.numel() >= FEWEST_ROWS:
            self.pushed = 1 if bool((gradient > 0).all()) else -1 if bool((gradient < 0).all()) else 0


class Players:
    """The last passes; `tell` is called once a maker was moved together with its judge for some turns."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._passes: deque[Scored] = deque(maxlen=MOST)
        self._turns: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._opposed: weakref.WeakSet[Any] = weakref.WeakSet()

    def on_forward(self, forward: Forward) -> None:
        """A module gave its output: one score for each row is of interest."""
        outputs = [tensor for tensor in tensors_in(forward.output) if tensor.requires_grad]
        given = [tensor for tensor in tensors_in((forward.args, forward.kwargs)) if tensor.is_floating_point()]
        if len(outputs) != 1 or not given or not given[0].ndim or outputs[0].numel() != len(given[0]):
            return
        is_made = any(tensor.requires_grad for tensor in given)
        scored = Scored(forward.module, frozenset(memory_of(given)), is_made, forward.location)
        outputs[0].register_hook(scored.on_gradient)
        self._passes.append(scored)

    def on_backward_end(self) -> None:
        """Gradients are there: what the maker's loss did is compared with what the judge's own did to the same rows."""
        made = next((each for each in reversed(self._passes) if each.is_made and each.pushed is not None), None)
        if made is None:
            return
        others = [each for each in self._passes if each.module is made.module and not each.is_made]
        own = [each.pushed for each in others if each.rows == made.rows and each.pushed is not None]
        real = {each.pushed for each in others if each.rows != made.rows and each.pushed is not None}
        # Memory is used again: passes of an earlier turn may have had the rows that others have now.
        self._passes.clear()
        if own and own[-1] != 0 and real == {-own[-1]}:
            self._judge(made, own[-1])

    def _judge(self, made: Scored, own: int) -> None:
        if made.pushed != own:
            self._opposed.add(made.module)
            return
        turns = self._turns[made.module] = self._turns.get(made.module, 0) + 1
        if turns >= TURNS and made.location is not None and made.module not in self._opposed:
            does, other = ("lowers", "raises") if own > 0 else ("raises", "lowers")
            self._tell(
                f"the loss of the generator {does} the scores of all its rows, as the loss of"
                f" `{type(made.module).__name__}` does, which {other} those of the real rows",
                made.location,
            )
