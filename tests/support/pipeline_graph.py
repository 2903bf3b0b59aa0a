"""A Pipeline as text: its values with their identities, so that two readings of one text can be compared."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, cast

from lintrain.interpreter.core.scope import Scope
from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.source.source import Source


def graph_of(pipeline: Pipeline) -> list[str]:
    """Everything that a reading recorded, one object a line; each object is numbered where it is first mentioned."""
    graph = _Graph()
    for name in (*pipeline.lengths(), "sources", "chosen"):
        graph.lines.append(f"{name}: {graph.of(getattr(pipeline, name))}")
    # By the identity of the result, which differs between readings; the order does not.
    graph.lines.append(f"arithmetic: {graph.of(list(pipeline.arithmetic.values()))}")
    keys = [made.result for made in pipeline.arithmetic.values()]
    assert [id(each) for each in keys] == list(pipeline.arithmetic)
    return graph.lines


class _Graph:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self._numbers: dict[int, int] = {}
        self._alive: list[object] = []

    def of(self, thing: Any) -> str:  # Any: whatever a record holds
        """How an object is written where it is mentioned."""
        match thing:
            case None | bool() | int() | float() | str() | bytes() | complex():
                return repr(thing)
            case ast.AST():
                return f"{type(thing).__name__}@{getattr(thing, 'lineno', 0)}:{getattr(thing, 'col_offset', 0)}"
            case Source():
                return f"<{thing.path}>"
            case Scope():
                return "<scope>"
            case Location():  # compared by what it says
                return repr(thing)
            case type():
                return thing.__qualname__
            case frozenset() | set():
                return f"{{{', '.join(sorted(map(self.of, cast('Iterable[object]', thing))))}}}"
            case tuple() | list():
                return f"[{', '.join(map(self.of, cast('Iterable[object]', thing)))}]"
            case Mapping():
                entries = cast("Mapping[object, object]", thing).items()
                return f"{{{', '.join(f'{self.of(key)}: {self.of(value)}' for key, value in entries)}}}"
            case _ if is_dataclass(thing):
                return self._number(thing)
            case _:
                return (
                    getattr(thing, "__qualname__", type(thing).__qualname__)
                    if callable(thing)
                    else type(thing).__qualname__
                )

    def _number(self, thing: Any) -> str:
        if (known := self._numbers.get(id(thing))) is not None:
            return f"#{known}"
        number = self._numbers[id(thing)] = len(self._numbers)
        self._alive.append(thing)
        parts = [f"{each.name}={self.of(getattr(thing, each.name))}" for each in fields(thing) if each.name[:1] != "_"]
        self.lines.append(f"#{number} {type(thing).__name__}({', '.join(parts)})")
        return f"#{number}"
