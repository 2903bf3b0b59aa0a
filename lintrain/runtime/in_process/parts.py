"""The parts of a training loop that the caller gives: what trains, on which batches, by which loss."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lintrain.runtime.child.kinds import is_mapping, is_row
from lintrain.runtime.child.library import library
from lintrain.startup.lazy_dataclass import dataclass

LABELS = ("labels", "label", "targets", "target", "y")


class NoLossError(TypeError):
    """It is not clear how a loss is made of a batch; the text says what is missing."""


@dataclass(frozen=True)
class Parts:
    """A model with the loader, the optimizer and the loss that train it.

    `loss` takes the model's output and the target of the batch; None if the model itself gives its loss.
    `training_step` takes model and batch and gives the loss; it replaces both.
    `steps` is how many optimizer steps the whole run takes.
    """

    model: Any
    loader: Iterable[Any]
    optimizer: Any
    loss: Callable[..., Any] | None = None
    training_step: Callable[[Any, Any], Any] | None = None
    eval_loader: Iterable[Any] | None = None
    scheduler: Any = None
    max_grad_norm: float | None = None
    steps: int | None = None

    def loss_of(self, batch: Any) -> Any:
        """The loss of a batch on the model's device."""
        if self.training_step is not None:
            return self.training_step(self.model, batch)
        given, target = _parted(batch, with_target=self.loss is not None)
        output = self.model(**given) if is_mapping(given) else self.model(*given)
        if self.loss is None:
            return own_loss(output)
        return self.loss(output if hasattr(output, "shape") else logits_of(output), target)


def _parted(batch: Any, *, with_target: bool) -> tuple[Mapping[str, Any] | tuple[Any, ...], Any]:
    """The model's input, and the target: the last entry of a tuple, or the entry with such a name."""
    if is_mapping(batch):
        name = next((name for name in LABELS if name in batch), None)
        if not with_target:
            return batch, None
        if name is None:
            raise NoLossError(f"the batch has no {', '.join(map(repr, LABELS))}; pass `training_step=`")
        return {key: value for key, value in batch.items() if key != name}, batch[name]
    if is_row(batch):
        return (tuple(batch[:-1]), batch[-1]) if with_target else (tuple(batch), None)
    if with_target:
        raise NoLossError(f"a batch that is a single {type(batch).__name__} has no target; pass `training_step=`")
    return (batch,), None


def own_loss(output: Any) -> Any:
    """The loss in a model's output: `.loss`, the entry of that name, or a tensor of one number."""
    found = output.get("loss") if is_mapping(output) else getattr(output, "loss", None)
    candidates = (found, output, *(output[:1] if is_row(output) else ()))
    for each in candidates:
        if getattr(each, "ndim", None) == 0:
            return each
    raise NoLossError(f"the model returns {type(output).__name__} and no loss; pass `loss=` or `training_step=`")


def logits_of(output: Any) -> Any:
    """What a loss function gets of an output with parts: its logits, else the output itself."""
    found = output.get("logits") if is_mapping(output) else getattr(output, "logits", None)
    return output if found is None else found


def on_device(batch: Any, device: Any) -> Any:
    """A batch with its tensors on a device."""
    if hasattr(batch, "to") and not is_mapping(batch):
        return batch.to(device)
    if is_mapping(batch):
        return {name: on_device(value, device) for name, value in batch.items()}
    if is_row(batch):
        return type(batch)(on_device(value, device) for value in batch) if type(batch) in (list, tuple) else batch
    return batch


def device_of(model: Any) -> Any:
    """The device of the model's first parameter."""
    first = next(iter(model.parameters()), None)
    return library("torch").device("cpu") if first is None else first.device
