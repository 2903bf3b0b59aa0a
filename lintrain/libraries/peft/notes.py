"""What is kept of an adapter that is put into a model: which call did it, and with which configuration."""

from __future__ import annotations

from lintrain.interpreter.core.call import Call
from lintrain.pipeline.events import Act
from lintrain.pipeline.values.model import Model
from lintrain.pipeline.values.python import Constant, Value


def note_adapter(call: Call, model: Model, config: Value) -> None:
    """Note that a call puts an adapter into a model."""
    trainable = call.value("is_trainable")
    call.reader.act(Act.ADAPT, call.location, model, how=Constant(call.path), config=config, is_trainable=trainable)
