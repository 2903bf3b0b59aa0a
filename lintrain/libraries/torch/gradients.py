"""Gradients: computed, scaled, clipped and cleared by hand, and tensors that start a graph of their own
(`Variable(x)`, `torch.tensor(x, requires_grad=True)`).
"""

from __future__ import annotations

import re
from dataclasses import replace

from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.call import Call, escape
from lintrain.interpreter.core.module_parts import runs_inside_a_forward
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import attribute_of, function, method, stored_attribute_of
from lintrain.interpreter.tracing import DATA, detached, traced
from lintrain.libraries.torch.freezing import mode_of
from lintrain.libraries.torch.layers import sizes_of
from lintrain.libraries.torch.literals import from_literal
from lintrain.libraries.torch.tensors import of_unknown
from lintrain.model.location import Location
from lintrain.pipeline.events import Act
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.model import Parameter, Role, Scaler, Tensor, one_tensor
from lintrain.pipeline.values.python import UNKNOWN, Bound, Constant, Unknown, Value, is_true
from lintrain.pipeline.values.tensors import Derived, Shape
from lintrain.startup.lazy_pattern import lazy_pattern

MODEL_NAME = lazy_pattern(
    r"(^|[._])(model|net|network|encoder|decoder|classifier|generator|discriminator|backbone|critic|actor|policy|"
    r"student|teacher|ema|bert|gpt|unet|transformer|resnet|vae|gan|cnn|rnn|lstm|mlp|dnn|gnn|gcn|autoencoder|embedder|"
    r"detector|regressor|model_engine)(_?\d*|_?[a-z]{1,2})(\.module)?$|(^|[._])[dg](\d*|_[a-z]{1,2})(\.module)?$|(model|net)$",
    re.IGNORECASE,
)
"""Names by which scripts call their models."""


@method(Value, "backward", "manual_backward")
def _backward(call: Call) -> Value:
    """`loss.backward()`, also of what is not understood; `engine.backward(loss)` has the loss for its argument."""
    # `loss.backward(retain_graph=True)` has keywords only; the engines of DeepSpeed and Fabric get the loss
    # by position.
    is_given = bool(call.positional) and not _starts_from(call.receiver, call.positional[0].value)
    loss = call.positional[0].value if is_given else call.receiver
    text = call.positional[0].text if is_given else call.receiver_text
    call.reader.act(Act.BACKWARD, call.location, call.receiver, loss=loss, text=Constant(text))
    return Constant(None)


def _starts_from(receiver: Value, argument: Value) -> bool:
    """Whether `tensor.backward(gradient)` gets the gradient of its result, which is off the graph on purpose."""
    is_off_graph = isinstance(argument, Tensor) and argument.cut is not None
    return isinstance(receiver, Tensor | Parameter) or (isinstance(receiver, Unknown) and is_off_graph)


@function("torch.autograd.backward")
def _backward_of(call: Call) -> Value:
    return _backward(call)


@function("torch.autograd.grad", "torch.autograd.functional.jacobian", "torch.autograd.functional.hessian")
@function("torch.func.grad", "torch.func.vmap", "torch.func.jacrev", "torch.func.jacfwd", "torch.func.functional_call")
def _gradient(call: Call) -> Value:
    call.reader.act(Act.GRADIENT, call.location, UNKNOWN)
    return UNKNOWN


INFINITE = lazy_pattern(r"float\(.\+?inf|\binf\b", re.IGNORECASE)
"""A limit without end: such a call only measures the gradients."""


@function("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_", "torch.nn.utils.clip_grad_norm")
def _clip(call: Call) -> Value:
    limit = call.value("max_norm", 1)
    # `clip_grad_norm_(parameters, float("inf"))` returns the norm and changes nothing.
    if not _is_endless(limit, call.text):
        call.reader.act(Act.CLIP, call.location, call.value("parameters", 0), text=Constant(call.text))
    return UNKNOWN


def _is_endless(limit: Value, text: str) -> bool:
    if isinstance(limit, Unknown):
        return INFINITE.search(text) is not None
    return isinstance(limit, Constant) and limit.value == float("inf")


@attribute_of(Unknown)
def _unknown_attribute(reader: Reader, value: Value, name: str, location: Location) -> Value | None:
    if name == "grad":
        reader.act(Act.GRADIENT, location, value)
    return mode_of(reader, value) if name == "training" and value is not UNKNOWN else None


@attribute_of(Tensor)
@attribute_of(Parameter)
def _gradient_of(reader: Reader, value: Value, name: str, location: Location) -> Value | None:
    if name == "data" and isinstance(value, Tensor):
        return detached(value, name, location)
    if name == "shape" and isinstance(value, Tensor):
        return sizes_of(value) or Bound(value, name)
    if name in {"T", "mT"} and isinstance(value, Tensor) and not value.shape.is_open:
        shape = Shape(value.shape.sizes[::-1], False)
        return replace(value, shape=shape, is_reshaped=True) if name == "T" or shape.rank == 2 else Bound(value, name)
    if name != "grad":
        return Bound(value, name)
    reader.act(Act.GRADIENT, location, value)
    return dispatch.child(reader, value, name)


@stored_attribute_of(Unknown)
def _store_gradient(reader: Reader, owner: Value, name: str, value: Value, location: Location) -> None:
    """`p.grad = None` clears; any other gradient that is put there is one that code computes itself."""
    if name == "requires_grad":
        reader.act(Act.FREEZE, location, owner, wanted=value, part=Constant(""), is_all=Constant(False))
    if name == "grad":
        reader.act(Act.ZERO_GRAD, location, owner)
        reader.act(Act.GRADIENT, location, owner)


@method(Unknown, "register_hook", "register_post_accumulate_grad_hook", "register_full_backward_hook")
@method(Unknown, "register_backward_hook")
@method(Parameter, "register_hook", "register_post_accumulate_grad_hook")
def _hook(call: Call) -> Value:
    call.reader.act(Act.GRADIENT, call.location, call.receiver)
    return UNKNOWN


@method(Unknown, "zero_", "fill_")
def _zero(call: Call) -> Value:
    """`p.grad.zero_()` and `p.grad.data.zero_()`."""
    if "grad" in call.receiver_text:
        call.reader.act(Act.ZERO_GRAD, call.location, call.receiver)
    return UNKNOWN


SCALER = lazy_pattern(r"(^|[._])(grad_?|amp_?|loss_?)?scaler$", re.IGNORECASE)


@function("torch.cuda.amp.GradScaler", "torch.amp.GradScaler", "torch.cuda.amp.grad_scaler.GradScaler")
@function("torch.amp.grad_scaler.GradScaler", "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler")
def _scaler(call: Call) -> Value:
    return Scaler(call.path, call.values(), origin=call.location)


@method(Scaler, "scale")
def _scale(call: Call) -> Value:
    return call.value("outputs", 0)


@method(Unknown, "scale")
def _scale_by_unknown(call: Call) -> Value:
    """`self.scaler.scale(loss)` of a scaler that another library made."""
    if is_scaler(call.receiver, call.receiver_text) and len(call.positional) == 1:
        return call.positional[0].value
    if not runs_inside_a_forward(call.reader):
        call.reader.act(Act.ESCAPE, call.location, UNKNOWN, callee=call.receiver)
    escape(call)
    return UNKNOWN


@method(Scaler, "step")
def _step(call: Call) -> Value:
    scaled_step(call)
    return UNKNOWN


def scaled_step(call: Call) -> None:
    """`scaler.step(optimizer)`: the optimizer's step."""
    given = call.argument("optimizer", 0)
    subject = given.value if given else UNKNOWN
    texts = {"text": Constant(given.text if given else ""), "scaler_text": Constant(call.receiver_text)}
    # The event is one of the optimizer, with the scaler as a detail: all rules about steps hold for scaled
    # ones.
    call.reader.act(Act.STEP, call.location, subject, named=Constant(True), scaler=call.receiver, **texts)


def is_scaler(value: Value, text: str) -> bool:
    """Whether a value is a gradient scaler, or something unknown that scripts call so."""
    return isinstance(value, Scaler) or SCALER.search(text) is not None


@method(Scaler, "unscale_")
@method(Unknown, "unscale_")
def _unscale(call: Call) -> Value:
    call.reader.act(Act.UNSCALE, call.location, call.value("optimizer", 0))
    return UNKNOWN


@method(Scaler, "update")
def _update(call: Call) -> Value:
    call.reader.act(Act.SCALER_UPDATE, call.location, call.receiver)
    return UNKNOWN


@method(Unknown, "update")
def _update_unknown(call: Call) -> Value:
    """`scaler.update()` where the scaler came in by a parameter."""
    # Dictionaries and progress bars have an `update` too. A scaler's takes at most one argument.
    if is_scaler(call.receiver, call.receiver_text) and len(call.positional) < 2:
        return _update(call)
    if not runs_inside_a_forward(call.reader):
        call.reader.act(Act.ESCAPE, call.location, UNKNOWN, callee=call.receiver)
    escape(call)
    return UNKNOWN


@method(Scaler, "state_dict", "load_state_dict", "get_scale", "is_enabled")
def _look(call: Call) -> Value:
    return UNKNOWN


REWRAPPED = "rewrapped"
"""The use of a computed tensor whose numbers become a new one that requires gradients."""


def new_leaf(call: Call) -> Value:
    """The same numbers in a tensor without history; it may require gradients of its own."""
    given = one_tensor(call.value("data", 0))
    learns = is_true(call.value("requires_grad"))
    if learns and _is_computed(given) and not _is_stopped(given):
        # PyTorch drops the history of the tensor, so the code that computed it gets no gradient.
        call.reader.record.misuses.append(Misuse(call.location, given, REWRAPPED, call.text))
    if isinstance(given, Tensor):
        return _rebuilt(call, given, learns=learns)
    if learns:
        made = from_literal(call)
        known = made if isinstance(made, Tensor) else of_unknown(call, given)
        return replace(known, made=None, cut=None)
    return from_literal(call) or of_unknown(call, given)


TO_NUMPY = "graph to numpy"
"""The use of a tensor that is still on autograd's graph where an array is made of it, which raises an error."""


def note_array(call: Call) -> None:
    """Record `output.numpy()` of numbers that forward passes computed, as far as they are known."""
    tensor = call.receiver
    is_array = call.path.endswith(".numpy") and not call.positional and not call.keywords
    if is_array and isinstance(tensor, Tensor) and tensor.graph and tensor.kind in {"", "float"}:
        call.reader.record.misuses.append(Misuse(call.location, tensor, TO_NUMPY, call.text))


def _is_stopped(value: Value) -> bool:
    """Whether the code itself took a tensor off the graph before: `Variable(logits.data, requires_grad=True)`."""
    return isinstance(value, Tensor) and value.cut is not None and value.cut.name in {"data", "detach"}


def _rebuilt(call: Call, given: Tensor, *, learns: bool) -> Value:
    is_computed = _is_computed(given)
    if learns and not is_computed:
        # Data that shall get a gradient: an input that is optimized, or a parameter.
        return replace(given, made=None, cut=None, text=call.text, origin=call.location)
    if not learns and given.made and given.made.name == DATA:
        return given
    return traced(call, given, replace(given, text=call.text, origin=call.location))


def _is_computed(value: Value) -> bool:
    """Whether a value comes out of a model or a loss."""
    match value:
        case Tensor():
            return not isinstance(value.model, Unknown) or value.role is Role.LOSS
        case Derived():
            return value.by != "slice" and _is_computed(value.of)
        case Unknown():
            return value.name == "output" or value.name.startswith(("output.", "output["))
        case _:
            return False
