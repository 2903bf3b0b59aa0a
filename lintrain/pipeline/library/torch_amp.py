"""Mixed precision of torch: gradient scalers, whose step is the optimizer's."""

from __future__ import annotations

from lintrain.pipeline.call import Call
from lintrain.pipeline.events import Act
from lintrain.pipeline.registry import function, method
from lintrain.pipeline.values.model import Scaler
from lintrain.pipeline.values.python import UNKNOWN, Constant, Value


@function("torch.cuda.amp.GradScaler", "torch.amp.GradScaler", "torch.cuda.amp.grad_scaler.GradScaler")
@function("torch.amp.grad_scaler.GradScaler", "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler")
def _scaler(call: Call) -> Value:
    return Scaler(call.path, call.values(), origin=call.place)


@method(Scaler, "scale")
def _scale(call: Call) -> Value:
    return call.value("outputs", 0)


@method(Scaler, "step")
def _step(call: Call) -> Value:
    given = call.argument("optimizer", 0)
    subject = given.value if given else UNKNOWN
    text = Constant(given.text if given else "")
    call.reader.act(Act.STEP, call.place, subject, text=text, named=Constant(True), scaler=call.receiver)
    return UNKNOWN


@method(Scaler, "unscale_")
def _unscale(call: Call) -> Value:
    call.reader.act(Act.UNSCALE, call.place, call.value("optimizer", 0))
    return UNKNOWN


@method(Scaler, "update")
def _update(call: Call) -> Value:
    call.reader.act(Act.SCALER_UPDATE, call.place, call.receiver)
    return UNKNOWN


@method(Scaler, "state_dict", "load_state_dict", "get_scale", "is_enabled")
def _look(call: Call) -> Value:
    return UNKNOWN
