"""The mode of a module: `train()`, `eval()`, and `training`, which scripts keep to restore it."""

from __future__ import annotations

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.pipeline.events import Act
from lintrain.pipeline.values.model import Mode
from lintrain.pipeline.values.python import Absent, Constant, Unknown, Value


def mode_of(reader: Reader, module: Value) -> Mode:
    """The mode that a module has now."""
    name = module.name if isinstance(module, Unknown) else "model"
    return Mode(name=f"{name}.training", of=module, made_at=len(reader.record.events))


def set_mode(call: Call) -> Value:
    """Note which mode `train` or `eval` sets: `.train(False)` is `.eval()`."""
    mode, receiver = call.value("mode", 0), call.receiver
    text = Constant(call.receiver_text)
    if isinstance(mode, Mode) and mode.of is receiver and not call.path.endswith("eval"):
        since = Constant(mode.made_at)
        call.reader.act(Act.RESTORE_MODE, call.location, receiver, text=text, since=since)
    else:
        call.reader.act(_act_of(call, mode), call.location, receiver, text=text)
    return receiver


def _act_of(call: Call, mode: Value) -> Act:
    if call.path.endswith("eval"):
        return Act.EVAL_MODE
    if isinstance(mode, Absent):
        return Act.TRAIN_MODE
    # `model.train(mode)` with an unknown mode: after it, neither mode is certain.
    if not isinstance(mode, Constant) or mode.default:
        return Act.ESCAPE
    return Act.TRAIN_MODE if mode.value else Act.EVAL_MODE
