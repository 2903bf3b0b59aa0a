"""The calls of losses: their arguments, and the operations that computed them."""

from __future__ import annotations

from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.model import Tensor
from lintrain.pipeline.values.python import options_of
from lintrain.pipeline.values.tensors import Operation
from lintrain.pipeline.values.training import LossCall


def losses_called(pipeline: Pipeline, *names: str) -> list[LossCall]:
    """The calls of these losses that training can use: those with autograd enabled."""
    return [loss for loss in pipeline.losses if loss.name in names and not loss.without_grad]


def tensors_given(loss: LossCall, parameter: str = "prediction") -> tuple[Tensor, ...]:
    """The tensors that an argument of a loss may be; empty if it may be anything else."""
    argument = loss.prediction if parameter == "prediction" else loss.target
    options = options_of(argument.value) if argument else ()
    tensors = tuple(option for option in options if isinstance(option, Tensor))
    return tensors if len(tensors) == len(options) else ()


def operations_before(loss: LossCall, *names: str) -> tuple[Operation, ...]:
    """The last operations of a loss's prediction, if all of them have one of these names; else empty."""
    made = [tensor.made for tensor in tensors_given(loss)]
    known = tuple(operation for operation in made if operation is not None and operation.name in names)
    return known if len(known) == len(made) else ()


def callee_of(loss: LossCall) -> str:
    """The code of the callee (`criterion`, `F.cross_entropy`), or the loss's name if the callee is complex."""
    callee = loss.text.partition("(")[0]
    return callee if callee and all(part.isidentifier() for part in callee.split(".")) else loss.name
