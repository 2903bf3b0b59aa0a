"""How much a value holds: the time that it takes to copy it, or to look through all of it."""

from __future__ import annotations

from lintrain.interpreter.core.reader import ITEMS_A_STEP, Reader
from lintrain.pipeline.values.python import Either, Mapping, Sequence, Unknown, Value

DEEPEST = 8
"""Levels of lists and dictionaries in each other that are looked into."""

HOLDERS = (Sequence, Mapping, Either)


def weighed(reader: Reader, value: Value) -> Value:
    """A value for code of a library that may look through all of it: what it holds is counted as steps.

    Unknown where lists lie in each other too deep: one that holds another twice, and that one again, has no end.
    """
    level = [value] if isinstance(value, HOLDERS) else []
    for _ in range(DEEPEST):
        if not level:
            return value
        inside: list[Value] = []
        for each in level:
            parts = _parts(each)
            reader.spend(len(parts) // ITEMS_A_STEP)
            inside.extend(parts)
        reader.spend(len(level) // ITEMS_A_STEP)
        level = [each for each in inside if isinstance(each, HOLDERS)]
    return Unknown() if level else value


def _parts(value: Value) -> list[Value] | tuple[Value, ...]:
    match value:
        case Sequence(items=items):
            return items
        case Mapping(entries=entries):
            return list(entries.values())
        case Either(options=options):
            return options
        case _:
            return ()
