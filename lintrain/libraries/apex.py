"""`amp.initialize` returns what it is given, and `amp.scale_loss` enters with the loss (apex 0.1)."""

from __future__ import annotations

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.registry import function
from lintrain.pipeline.values.python import Absent, LibraryObject, Sequence, Value


@function("apex.amp.initialize")
def _initialize(call: Call) -> Value:
    """The models and the optimizers, or the models alone if no optimizer is given."""
    models, optimizers = call.value("models", 0), call.value("optimizers", 1)
    return models if isinstance(optimizers, Absent) else Sequence([models, optimizers], "tuple")


@function("apex.amp.scale_loss")
def _scale_loss(call: Call) -> Value:
    """A context manager, which enters with the loss (`lintrain/interpreter/statements.py`)."""
    return LibraryObject("apex.amp.scale_loss", {"0": call.value("loss", 0)}, origin=call.location)
