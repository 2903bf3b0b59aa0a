"""What is handed to code that is not understood, and may come back changed."""

from __future__ import annotations

import ast

from lintrain.interpreter.call import Call
from lintrain.pipeline.events import Act
from lintrain.pipeline.values.data import Tokenizer
from lintrain.pipeline.values.frames import DataFrame
from lintrain.pipeline.values.loading import Loader
from lintrain.pipeline.values.model import Model, ModelPart, Module, Optimizer, Scaler
from lintrain.pipeline.values.python import Either, Instance, Mapping, Sequence, Unknown, Value

FOLLOWED = Model | ModelPart | Module | Optimizer | Scaler | Tokenizer | Loader | Instance
"""Values whose fate matters: handing one to code that is not understood is an event."""


DRAWING = ("display", "sns.", "plt.", "px.")
"""How the code of calls begins that show a frame."""


def escape(call: Call) -> None:
    """Note that values whose fate matters were handed to code that is not understood."""
    for argument in [*call.positional, *call.keywords.values()]:
        for value in _members(argument.value):
            if isinstance(value, DataFrame):
                _hand_over(call, value)
            elif isinstance(value, FOLLOWED) or (isinstance(value, Unknown) and value.name):
                call.reader.act(Act.ESCAPE, call.location, value)


def _hand_over(call: Call, frame: DataFrame) -> None:
    """What is not understood may change a frame; libraries, and what draws, do not."""
    is_of_library = call.path and not call.path.startswith(("Instance.", "Super.", "Class."))
    if not is_of_library and not (call.node is not None and ast.unparse(call.node.func).startswith(DRAWING)):
        frame.forget()


def _members(value: Value) -> list[Value]:
    match value:
        case Either():
            return list(value.options)
        case Sequence():
            return value.items[:16]
        case Mapping():
            return list(value.entries.values())[:16]
        case _:
            return [value]
