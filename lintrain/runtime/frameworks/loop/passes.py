"""Forward passes of a loop: which of them were for training, and in which modes the model was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from lintrain.runtime.child.kinds import is_mapping
from lintrain.runtime.child.library import library
from lintrain.runtime.frameworks.loop.model import held_by
from lintrain.runtime.measure.alignment import ids_and_mask
from lintrain.runtime.measure.calls import without_shells
from lintrain.runtime.measure.outputs import number, shape_of
from lintrain.runtime.measure.seen import Forward, Iteration, LossCall, autocast_now, modes_of, tensors_in

MOST = 64


class Passes:
    """Passes and losses that wait for the backward pass that decides what they were for.

    `evaluated_losses` and `evaluated_shape`, the shape of the last output, are of those that were for evaluation.
    """

    def __init__(self, counts: Counter[str]) -> None:
        self.counts = counts
        self.waiting: list[Forward] = []
        self.losses: list[LossCall] = []
        self.evaluated_losses: list[float] = []
        self.evaluated_shape: tuple[int, ...] = ()
        self.ids: Any = None
        self.mask: Any = None

    def reads(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A whole module is called: the losses that follow are about the tokens that it reads."""
        self.ids, self.mask = ids_and_mask(args, kwargs) or (self.ids, self.mask)

    def add(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Forward | None:
        """A whole module gave its output; None if it trains nothing, or where enough passes are waiting.

        Losses train nothing, and neither do torchvision's transforms, which are modules and work row by row.
        """
        if isinstance(module, library("torch.nn").modules.loss._Loss) or len(self.waiting) >= MOST:
            return None
        if next(module.parameters(), None) is None:
            return None
        records = any(tensor.requires_grad for tensor in tensors_in(output))
        # DDP, compile and Fabric wrap the module; modes and weights are those of the inner one.
        own = without_shells(module)
        forward = Forward(own, args, kwargs, output, records, modes_of(module), own, autocast_now())
        self.waiting.append(forward)
        return forward

    @property
    def records(self) -> bool:
        """Whether autograd recorded one of them."""
        return any(forward.records for forward in self.waiting)

    def train(self) -> None:
        """A backward pass follows: the last pass that autograd recorded was for training."""
        # One backward pass, one training pass: earlier recorded passes are a teacher's, a reference model's, or an
        # evaluation that forgot `no_grad`.
        for forward in [forward for forward in self.waiting if forward.records][-1:]:
            self.counts["trained"] += 1
            self.counts["trained_in_eval_mode"] += bool(forward.modes) and not any(forward.modes)

    def on_loss(self, call: LossCall) -> None:
        """A loss function is called."""
        if len(self.losses) < MOST:
            self.losses.append(call)

    def clear(self) -> None:
        """Nothing waits any more: what the passes were for is known, or does not matter."""
        self.waiting.clear()
        self.losses.clear()

    def evaluate(self, optimizers: Sequence[Any], but: Iteration | None = None) -> None:
        """No backward pass follows: those of models that an optimizer holds were for evaluation."""
        held = {key for optimizer in optimizers for key in held_by(optimizer)}
        behind = but or Iteration()
        of_models: list[float] = []
        modules = set[int]()
        for forward in self.waiting:
            # Those of the present iteration belong to the backward pass that proved the new round.
            if forward not in behind.forwards and any(id(own) in held for own in forward.module.parameters()):
                self.counts["evaluated"] += 1
                self.counts["evaluated_in_train_mode"] += any(forward.modes)
                self.counts["recorded_for_nothing"] += forward.records
                modules.add(id(forward.module))
                self.evaluated_shape = shape_in(forward.output) or self.evaluated_shape
                of_models += loss_in(forward.output)
        of_calls = [call.result for call in self.losses if call not in behind.losses and call.result is not None]
        self.evaluated_losses += of_models or [number(result) for result in of_calls]
        if len(modules) > 1:  # of which of them a metric judges is not known
            self.evaluated_shape = ()
        self.clear()


def loss_in(output: Any) -> list[float]:
    """The loss in an output, if it has one."""
    loss = output.get("loss") if is_mapping(output) else None
    return [number(loss)] if hasattr(loss, "detach") else []


def shape_in(output: Any) -> tuple[int, ...]:
    """The shape of the logits of an output, or of the output itself where it is one tensor."""
    return tuple(output.shape) if hasattr(output, "shape") else shape_of(output)[1]
