"""The losses of torch, as functions and as modules: each use is kept for the rules, with what it was given."""

from __future__ import annotations

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.shapes import ANY
from lintrain.pipeline.values.model import Module, Role, Tensor
from lintrain.pipeline.values.python import Absent, Constant, Sequence, Unknown, Value, text_of
from lintrain.pipeline.values.tensors import Derived, Operation, Shape, root_of
from lintrain.pipeline.values.training import LossCall
from lintrain.startup.lazy_pattern import lazy_pattern

MODULES = {
    "CrossEntropyLoss": "cross_entropy",
    "NLLLoss": "nll_loss",
    "BCELoss": "binary_cross_entropy",
    "BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
    "MSELoss": "mse_loss",
    "L1Loss": "l1_loss",
    "SmoothL1Loss": "smooth_l1_loss",
    "HuberLoss": "huber_loss",
}
"""Loss modules by the functions that they call."""

FROM_DATA = lazy_pattern(r"\.\[\]|^batch\.\[")
"""Names of unknown things that a loop over data gives: an element, or a part of one."""


def loss_of(call: Call, name: str, options: dict[str, Value]) -> Value:
    """Keep one use of a loss, and give its value."""
    prediction, target = call.argument("input", 0), call.argument("target", 1)
    reader = call.reader
    off = reader.without_grad > 0
    used = LossCall(name, call.location, prediction, target, options, call.text, off)
    # With `*args` prediction and target may be anywhere, and a rule would compare the wrong ones.
    if not call.is_open:
        reader.record.losses.append(used)
    made = Operation(name, call.location, call.text)
    shape = Shape((), False) if _averages(options) else ANY
    cut = _cut_of(prediction.value if prediction else Unknown(), target.value if target else Unknown())
    return Tensor(Role.LOSS, text=call.text, made=made, shape=shape, kind="float", cut=cut, origin=call.location)


def function_loss(call: Call) -> Value:
    """`F.cross_entropy(logits, labels)`."""
    return loss_of(call, call.path.rpartition(".")[2], call.values("input", "target"))


def module_loss(call: Call, module: Module) -> Value:
    """`criterion(logits, labels)`."""
    return loss_of(call, MODULES.get(module.name, module.name), module.arguments)


def _averages(options: dict[str, Value]) -> bool:
    reduction = options.get("reduction")
    return reduction is None or text_of(reduction) in {"mean", "sum"}


def _cut_of(prediction: Value, target: Value) -> Operation | None:
    """What took the loss off the graph: what did it to the prediction, where the target can have no gradient either."""
    if not isinstance(prediction, Tensor) or prediction.cut is None:
        return None
    # If gradients can flow into the target, the loss still has a graph.
    return prediction.cut if is_data(target) else None


def is_data(value: Value) -> bool:
    """Whether a value certainly comes from the data, or is a literal: no gradient flows into it."""
    match value:
        case Tensor():
            return (isinstance(value.model, Unknown) and value.role is Role.LABELS) or value.cut is not None
        case Constant() | Absent():
            return True
        case Derived():
            return is_data(root_of(value.of) if value.by == "slice" else root_of(value))
        case Unknown():
            return FROM_DATA.search(value.name) is not None
        case Sequence():
            return all(is_data(item) for item in value.items)
        case _:
            return False
