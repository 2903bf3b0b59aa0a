"""Number formats of weights: `.half()`, `.bfloat16()`, `.float()`, `.to(dtype)` on models and modules."""

from __future__ import annotations

from lintrain.interpreter.core.call import Call
from lintrain.pipeline.events import Act
from lintrain.pipeline.values.model import Model, ModelPart
from lintrain.pipeline.values.python import ABSENT, UNKNOWN, Absent, Constant, Library, Unknown, Value, text_of

BY_METHOD = {"half": "float16", "bfloat16": "bfloat16", "float": "float32", "double": "float64"}
BY_NAME = {"half": "float16", "float": "float32", "double": "float64"}
FORMATS = frozenset({"float16", "bfloat16", "float32", "float64"})


def cast(call: Call) -> None:
    """Note that a call changes, or may change, the number format of a model's weights."""
    dtype = _asked_for(call)
    if isinstance(call.receiver, ModelPart):
        # A part of the model gets another format: what the whole has then is mixed, so the format of the
        # whole is unknown.
        dtype = UNKNOWN if not isinstance(dtype, Absent) else dtype
        subject = call.receiver.model
    else:
        subject = call.receiver
    if isinstance(subject, Model) and not isinstance(dtype, Absent):
        call.reader.act(Act.CAST, call.location, subject, dtype=dtype)


def _asked_for(call: Call) -> Value:
    """The format that a call asks for; Absent where it only moves, Unknown if that is not known."""
    name = call.path.rpartition(".")[2]
    if name in BY_METHOD:
        return Constant(BY_METHOD[name])
    if name != "to":
        return ABSENT
    if call.is_open or "**" in call.keywords:
        return UNKNOWN
    given = [argument.value for argument in (*call.positional, *call.keywords.values())]
    formats = [found for value in given if (found := dtype_of(value)) is not None]
    if formats:
        return Constant(formats[0])
    named = call.keywords.get("dtype")
    # `model.to(device)` only moves. With a second argument that is not known, `to(device, dtype)`, it may
    # cast.
    return UNKNOWN if named is not None or any(isinstance(value, Unknown) for value in given[1:]) else ABSENT


def dtype_of(value: Value) -> str | None:
    """The number format that a value certainly names (`torch.half`, `"bfloat16"`), None where it names none."""
    if isinstance(value, Library) and value.path.startswith("torch."):
        name = value.path.removeprefix("torch.")
    elif isinstance(value, Constant) and not value.is_default:
        name = (text_of(value) or "").removeprefix("torch.")
    else:
        return None
    name = BY_NAME.get(name, name)
    return name if name in FORMATS else None
