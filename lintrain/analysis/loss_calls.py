"""What the rules about losses ask: what a loss was given, and which operation made it."""

from __future__ import annotations

from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.model import Tensor
from lintrain.pipeline.values.python import options_of
from lintrain.pipeline.values.tensors import Operation
from lintrain.pipeline.values.training import LossCall


def losses_called(pipeline: Pipeline, *names: str) -> list[LossCall]:
    """The uses of these losses that training can learn from: those with autograd on."""
    return [loss for loss in pipeline.losses if loss.name in names and not loss.without_grad]


def tensors_given(loss: LossCall, parameter: str = "prediction") -> tuple[Tensor, ...]:
    """The tensors that an argument of a loss may be, if it is certainly one that is understood; else none."""
    argument = loss.prediction if parameter == "prediction" else loss.target
    options = options_of(argument.value) if argument else ()
    tensors = tuple(option for option in options if isinstance(option, Tensor))
    return tensors if len(tensors) == len(options) else ()


def operations_before(loss: LossCall, *names: str) -> tuple[Operation, ...]:
    """The last operations behind a loss's prediction where all of them have one of these names; else none."""
    made = [tensor.made for tensor in tensors_given(loss)]
    known = tuple(operation for operation in made if operation is not None and operation.name in names)
    return known if len(known) == len(made) else ()


def callee_of(loss: LossCall) -> str:
    """The code of what is called (`criterion`, `F.cross_entropy`), or the loss's name where that is long."""
    callee = loss.text.partition("(")[0]
    return callee if callee and all(part.isidentifier() for part in callee.split(".")) else loss.name
