"""Verdicts on custom training loops that several rules share.

The calls of losses: their arguments, and the operations that computed them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from lintrain.model.location import Location
from lintrain.model.verdict import Verdict
from lintrain.pipeline.events import Act
from lintrain.pipeline.modules import is_module_class
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.model import Module, Tensor
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
    """The calls of these losses that training can use: those with autograd enabled.

    A script that trains nothing only measures its losses, so there the others count as well.
    """
    is_only_measured = not pipeline.acts(Act.BACKWARD)
    used = [loss for loss in pipeline.losses if loss.name in names]
    return [loss for loss in used if is_only_measured or not loss.without_grad]


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


DISTRIBUTIONS = frozenset({"softmax", "log_softmax", "sigmoid", "one_hot"})


def has_soft_targets(loss: LossCall) -> bool:
    """Whether the targets are probabilities: such a loss compares two distributions."""
    targets = tensors_given(loss, "target")
    return any(target.kind == "float" or (target.made and target.made.name in DISTRIBUTIONS) for target in targets)


def endings_before(pipeline: Pipeline, criterion: str, *names: str) -> tuple[Location | None, list[Operation]]:
    """Where the script makes its only criterion, and the last operations of its only network, with these names.

    For scripts that leave the training to code elsewhere: no loss is called, and the network is not either.
    """
    made = [call for call in pipeline.calls if call.path.startswith("torch.nn.") and call.path.endswith("Loss")]
    if pipeline.losses or len(made) != 1 or made[0].path != f"torch.nn.{criterion}" or pipeline.acts(Act.FORWARD):
        return None, []
    returned = [each.value for each in pipeline.returned if each.method.name == "forward" and is_module_class(each.cls)]
    networks = [binding.value for binding in pipeline.bindings if isinstance(binding.value, Module)]
    sequential = [network for network in networks if network.name == "Sequential"]
    if len(returned) == 1 and not sequential:
        ends = [option.made for option in options_of(returned[0]) if isinstance(option, Tensor) and option.made]
        is_whole = len(ends) == len(options_of(returned[0]))
    else:
        last = sequential[0].parts[-1:] if len(sequential) == 1 and not returned else []
        ends = [Operation(part.name.lower(), part.origin) for part in last if isinstance(part, Module)]
        is_whole = bool(ends)
    is_one = is_whole and all(operation.name in names for operation in ends)
    return (made[0].location, ends) if is_one else (None, [])


def callee_of(loss: LossCall) -> str:
    """The code of the callee (`criterion`, `F.cross_entropy`), or the loss's name if the callee is complex."""
    callee = loss.text.partition("(")[0]
    return callee if callee and all(part.isidentifier() for part in callee.split(".")) else loss.name
