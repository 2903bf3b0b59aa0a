"""The script's own modules: calling one runs its forward, with the methods that it has from `torch.nn.Module`."""

from __future__ import annotations

from lintrain.interpreter import invocation
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.module_parts import runs_inside_a_forward
from lintrain.interpreter.core.registry import instance_called, instance_method, method
from lintrain.pipeline.events import Act
from lintrain.pipeline.modules import MODULE
from lintrain.pipeline.values.model import Module, Parameters, Tensor
from lintrain.pipeline.values.python import UNKNOWN, Absent, Constant, Function, Instance, Unknown, Value, text_of


@instance_called(MODULE)
def _run(call: Call) -> Value:
    """An event for the outermost module only: what its own forward calls belongs to it."""
    module = call.receiver
    if not isinstance(module, Instance):
        return UNKNOWN
    if not runs_inside_a_forward(call.reader):
        call.reader.act(Act.FORWARD, call.location, module)
    found = module.cls.lookup("forward")
    if found is None or not isinstance(found[1], Function):
        return UNKNOWN
    # The forward is followed whenever the module is called, so that losses and shapes in it are known for
    # these inputs.
    result = invocation.run_function(call, found[1], module, found[0])
    return Tensor(model=module, text=call.text, origin=call.location) if isinstance(result, Unknown) else result


@instance_method(MODULE, "to", "cuda", "cpu", "half", "float", "double", "bfloat16", "type", "compile", "apply")
@instance_method(MODULE, "share_memory", "to_empty", "xpu", "set_extra_state")
def _same(call: Call) -> Value:
    return call.receiver


@instance_method(MODULE, "parameters", "named_parameters")
def _parameters(call: Call) -> Value:
    return Parameters((call.receiver,), call.path.endswith("named_parameters"), origin=call.location)


@instance_method(MODULE, "state_dict", "load_state_dict", "children", "modules", "named_modules", "named_children")
@instance_method(MODULE, "buffers", "named_buffers", "extra_repr", "get_parameter", "get_submodule", "__init__")
@instance_method(MODULE, "save_pretrained", "push_to_hub")
def _look(call: Call) -> Value:
    return UNKNOWN


@instance_method(MODULE, "add_module", "register_module", "register_buffer", "register_parameter")
def _add(call: Call) -> Value:
    name = text_of(call.value("name", 0))
    if isinstance(call.receiver, Instance) and len(call.positional) > 1:
        # A name of its own for each unknown one: all of them are parts, and none may replace another.
        call.receiver.attributes[name or f"?{len(call.receiver.attributes)}"] = call.positional[1].value
    return Constant(None)


@method(Module, "train", "eval")
@instance_method(MODULE, "train", "eval")
def _set_mode(call: Call) -> Value:
    act = _mode_of(call)
    call.reader.act(act, call.location, call.receiver, text=Constant(call.receiver_text))
    return call.receiver


@method(Unknown, "train", "eval")
def _set_unknown_mode(call: Call) -> Value:
    """`.train()` and `.eval()` of something unknown: with other arguments they are not those of a module."""
    if len(call.positional) + len(call.keywords) > 1 or call.is_open or (call.keywords and "mode" not in call.keywords):
        call.reader.act(Act.ESCAPE, call.location, call.receiver)
        return UNKNOWN
    return _set_mode(call)


def _mode_of(call: Call) -> Act:
    """`.train(False)` is `.eval()`; a mode that is not known may be either."""
    mode = call.value("mode", 0)
    if call.path.endswith(".eval"):
        return Act.EVAL_MODE
    if isinstance(mode, Absent):
        return Act.TRAIN_MODE
    # `model.train(mode)` with an unknown mode: after it, neither mode is certain.
    if not isinstance(mode, Constant) or mode.is_default:
        return Act.ESCAPE
    return Act.TRAIN_MODE if mode.value else Act.EVAL_MODE


@method(Value, "zero_grad", "zero_grads", "clear_grad", "clear_gradients", "cleargrads", "optimizer_zero_grad")
@instance_method(MODULE, "zero_grad")
def _zero_grad(call: Call) -> Value:
    """Gradients are cleared, also those of what is not understood, like a model that a library made."""
    call.reader.act(Act.ZERO_GRAD, call.location, call.receiver, text=Constant(call.receiver_text))
    return Constant(None)


@method(Module, "requires_grad_")
@method(Unknown, "requires_grad_")
@instance_method(MODULE, "requires_grad_")
def _freeze(call: Call) -> Value:
    call.reader.act(Act.FREEZE, call.location, call.receiver, wanted=UNKNOWN, part=Constant(""), is_all=Constant(False))
    return call.receiver
