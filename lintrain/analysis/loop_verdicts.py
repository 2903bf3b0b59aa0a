"""Verdicts on custom training loops that several rules share.

The calls of losses: their arguments, and the operations that computed them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from lintrain.model.verdict import Verdict
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.model import Tensor
from lintrain.pipeline.values.python import options_of
from lintrain.pipeline.values.tensors import Operation
from lintrain.pipeline.values.training import LossCall

if TYPE_CHECKING:
    from lintrain.evidence.run import Evidence


def weights_outside(evidence: Evidence, holders: Literal["optimizers", "modules"]) -> Verdict:
    """Whether the loss depends on weights outside all optimizers, or outside all called modules."""
    loop = evidence.loop
    if loop is None:
        return Verdict.inconclusive(evidence.without_loop)
    reached = loop.reached
    if reached is None or not reached.tensors:
        return Verdict.inconclusive(f"the losses of {loop.backwards} backward passes depend on no weight")
    if holders == "optimizers":
        outside, which = reached.outside_optimizers, "in no optimizer"
    else:
        outside, which = reached.outside_modules, "in no module that was called"
    text = f"{outside} of {reached.tensors} weights that the loss depends on are {which}"
    return (Verdict.confirmed if outside else Verdict.refuted)(text, **{f"outside_{holders}": outside})


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
