"""The script's own modules: calling one runs its forward, with the methods that it has from `torch.nn.Module`."""

from __future__ import annotations

from lintrain.interpreter import invocation
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.module_parts import runs_inside_a_forward
from lintrain.interpreter.core.registry import instance_called, instance_method
from lintrain.pipeline.events import Act
from lintrain.pipeline.modules import MODULE
from lintrain.pipeline.values.model import Parameters, Tensor
from lintrain.pipeline.values.python import UNKNOWN, Constant, Function, Instance, Unknown, Value, text_of


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
        call.receiver.attributes[name or f"?{len(call.receiver.attributes)}"] = call.positional[1].value
    return Constant(None)
