"""How much a value holds: the time that it takes to copy it, or to look through all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lintrain.pipeline.values.python import Either, Mapping, Sequence, Value

if TYPE_CHECKING:
    from lintrain.pipeline.reader import Reader

DEEPEST = 8
"""Levels of lists and dictionaries in each other that are looked into."""

ITEMS_A_STEP = 8
"""Items that are copied or looked at in the time of a step."""

NAMES_A_STEP = 64
"""Names that are copied in the time of a step, for a branch that forgets them again."""

HOLDERS = (Sequence, Mapping, Either)


def weigh(reader: Reader, value: Value) -> None:
    """Count what a list or dictionary holds as steps, for code of a library that may look at all of it."""
    if isinstance(value, HOLDERS):
        most = (reader.limit - reader.steps) * ITEMS_A_STEP
        reader.spend(_weight(value, most) // ITEMS_A_STEP)


def _weight(value: Value, most: int) -> int:
    """The number of things inside a value, those that lie in several of them once for each; counted to `most`."""
    count, level = 0, [value]
    for _ in range(DEEPEST):
        inside: list[Value] = []
        for each in level:
            inside.extend(_parts(each))
            if count + len(inside) > most:
                return most + ITEMS_A_STEP
        count += len(inside)
        level = [each for each in inside if isinstance(each, HOLDERS)]
        if not level:
            break
    return count


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
