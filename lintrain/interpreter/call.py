"""One call as the reader sees it: who is called, and with which arguments."""

from __future__ import annotations

import ast
from dataclasses import field
from typing import TYPE_CHECKING

from lintrain.model.location import Location
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.python import ABSENT, UNKNOWN, Value
from lintrain.startup.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from lintrain.interpreter.reader import Reader


@dataclass(slots=True)
class Call:
    """A call under evaluation. `path` is the dotted name of the library function, class or method (`Dataset.map`).

    `is_open` says that `*args` or `**kwargs` of unknown content may have given any argument.
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
        """The code of what a method is called on (`optimizer` in `optimizer.step()`), empty where there is none."""
        if self.node is None or not isinstance(self.node.func, ast.Attribute):
            return ""
        return self.reader.code(self.reader.source.location(self.node.func.value))

    def argument(self, name: str, position: int | None = None) -> Argument | None:
        """One argument by its parameter name, or by its position counted from 0; None where it was not given."""
        if name in self.keywords:
            return self.keywords[name]
        if position is not None and position < len(self.positional):
            return self.positional[position]
        return None

    def value(self, name: str, position: int | None = None) -> Value:
        """What one argument is: Absent where it was not given, Unknown where it may have been."""
        argument = self.argument(name, position)
        if argument is not None:
            return argument.value
        return UNKNOWN if self.is_open else ABSENT

    def named(self, *parameters: str) -> dict[str, Argument]:
        """All arguments by name, the positional ones named by these parameters in order."""
        return {**dict(zip(parameters, self.positional, strict=False)), **self.keywords}

    def values(self, *parameters: str) -> dict[str, Value]:
        """All arguments' values by name, the positional ones named by these parameters, then by their numbers."""
        names = [*parameters, *(str(index) for index in range(len(parameters), len(self.positional)))]
        return {name: argument.value for name, argument in self.named(*names).items()}
