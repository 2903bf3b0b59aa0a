"""One call as the reader sees it: its arguments, and what becomes of them if its callee is not understood."""

from __future__ import annotations

import ast
from dataclasses import field

from lintrain.interpreter.core.reader import Reader
from lintrain.model.location import Location
from lintrain.pipeline.events import Act
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.columns import DataFrame
from lintrain.pipeline.values.data import Tokenizer
from lintrain.pipeline.values.loading import Loader
from lintrain.pipeline.values.model import Model, ModelPart, Module, Optimizer, Scaler
from lintrain.pipeline.values.python import ABSENT, UNKNOWN, Either, Instance, Mapping, Sequence, Unknown, Value
from lintrain.source.nodes import unparse
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(slots=True)
class Call:
    """A call under evaluation. `path` is the dotted name of the library function, class or method (`Dataset.map`).

    `is_open` if `*args` or `**kwargs` of unknown content may have given any argument.
    """

    reader: Reader
    node: ast.Call | None
    location: Location
    path: str = ""
    receiver: Value = ABSENT
    positional: list[Argument] = field(default_factory=lambda: [])
    keywords: dict[str, Argument] = field(default_factory=lambda: {})
    is_open: bool = False
    spread: Value = ABSENT
    """What was written out with a star, where its items are not all known."""

    @property
    def text(self) -> str:
        """Its code; empty for what no code of the script calls."""
        return self.reader.code(self.location) if self.node is not None else ""

    @property
    def receiver_text(self) -> str:
        """The code of what a method is called on (`optimizer` in `optimizer.step()`), empty if there is none."""
        if self.node is None or not isinstance(self.node.func, ast.Attribute):
            return ""
        return self.reader.code(self.reader.source.location(self.node.func.value))

    def argument(self, name: str, position: int | None = None) -> Argument | None:
        """One argument by its parameter name, or by its position counted from 0; None if it was not given."""
        if name in self.keywords:
            return self.keywords[name]
        if position is not None and position < len(self.positional):
            return self.positional[position]
        return None

    def value(self, name: str, position: int | None = None) -> Value:
        """What one argument is: Absent if it was not given, Unknown if it may have been."""
        argument = self.argument(name, position)
        if argument is not None:
            return argument.value
        # After `f(*args)` any parameter may have been given, so a rule must not say that one is missing.
        return UNKNOWN if self.is_open else ABSENT

    def named(self, *parameters: str) -> dict[str, Argument]:
        """All arguments by name, the positional ones named by these parameters in order."""
        return {**dict(zip(parameters, self.positional, strict=False)), **self.keywords}

    def values(self, *parameters: str) -> dict[str, Value]:
        """All arguments' values by name, the positional ones named by these parameters, then by their numbers."""
        names = [*parameters, *(str(index) for index in range(len(parameters), len(self.positional)))]
        return {name: argument.value for name, argument in self.named(*names).items()}


FOLLOWED = Model | ModelPart | Module | Optimizer | Scaler | Tokenizer | Loader | Instance
"""Values whose fate matters: handing one to code that is not understood is an event."""


DRAWING = ("display", "sns.", "plt.", "px.")
"""How the code of calls begins that show a frame."""


def escape(call: Call) -> None:
    """Note that values whose fate matters were handed to code that is not understood."""
    for argument in [*call.positional, *call.keywords.values()]:
        for value in _members(argument.value):
            # A frame is only forgotten, not recorded as handed over: no rule asks where frames went.
            if isinstance(value, DataFrame):
                _hand_over(call, value)
            elif isinstance(value, FOLLOWED) or (isinstance(value, Unknown) and value.name):
                call.reader.act(Act.ESCAPE, call.location, value)


def _hand_over(call: Call, frame: DataFrame) -> None:
    """What is not understood may change a frame; libraries, and what draws, do not."""
    # Functions of libraries that the reader does not know (`sns.heatmap(frame)`) draw or count, they do not
    # change frames. Methods of the script's own objects may do anything.
    is_of_library = call.path and not call.path.startswith(("Instance.", "Super.", "Class."))
    if not is_of_library and not (call.node is not None and unparse(call.node.func).startswith(DRAWING)):
        frame.forget()


def _members(value: Value) -> list[Value]:
    match value:
        case Either():
            return list(value.options)
        case Sequence():
            # Sixteen are enough for argument lists that people write. A list of a thousand models would be
            # a thousand events.
            return value.items[:16]
        case Mapping():
            return list(value.entries.values())[:16]
        case _:
            return [value]
