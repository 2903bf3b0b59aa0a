"""Forward passes of a loop: which of them were for training, and in which modes the model was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from lintrain.probe.child.experiments.alignment import ids_and_mask
from lintrain.probe.child.library import library
from lintrain.probe.child.loop.model import held_by, unwrapped
from lintrain.probe.child.loop.seen import Forward, autocast_now, modes_of, tensors_in

MOST = 64


class Passes:
    """Passes that wait for the backward pass that tells what they were for."""

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self.waiting: list[Forward] = []
        self.ids: Any = None
        self.mask: Any = None

    def reads(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A whole module is called: the losses that follow are about the tokens that it reads."""
        self.ids, self.mask = ids_and_mask(args, kwargs) or (self.ids, self.mask)

    def add(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Forward | None:
        """A whole module gave its output; None where it trains nothing, or where enough passes are waiting.

        Losses train nothing, and neither do torchvision's transforms, which are modules and work row by row.
        """
        if isinstance(module, library("torch.nn").modules.loss._Loss) or len(self.waiting) >= MOST:
            return None
        if next(module.parameters(), None) is None:
            return None
        records = any(tensor.requires_grad for tensor in tensors_in(output))
        own = unwrapped(module)
        forward = Forward(own, args, kwargs, output, records, modes_of(module), own, autocast_now())
        self.waiting.append(forward)
        return forward

    @property
    def records(self) -> bool:
        """Whether autograd recorded one of them."""
        return any(forward.records for forward in self.waiting)

    def train(self) -> None:
        """A backward pass follows: the last pass that autograd recorded was for training."""
        for forward in [forward for forward in self.waiting if forward.records][-1:]:
            self._counts["trained"] += 1
            self._counts["trained_in_eval_mode"] += bool(forward.modes) and not any(forward.modes)

    def evaluate(self, optimizers: Sequence[Any], but: Sequence[Forward] = ()) -> None:
        """No backward pass follows: those of models that an optimizer holds were for evaluation."""
        held = {key for optimizer in optimizers for key in held_by(optimizer)}
        for forward in self.waiting:
            if forward not in but and any(id(weight) in held for weight in forward.module.parameters()):
                self._counts["evaluated"] += 1
                self._counts["evaluated_in_train_mode"] += any(forward.modes)
                self._counts["recorded_for_nothing"] += forward.records
        self.waiting.clear()
