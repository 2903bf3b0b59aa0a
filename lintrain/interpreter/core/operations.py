"""What is done to values that have no verb of their own: unpacking, operators, comparisons, truth."""

from __future__ import annotations

from collections.abc import Iterable

from lintrain.interpreter.core import arithmetic
from lintrain.interpreter.core.dispatch import child, element
from lintrain.interpreter.core.items import apart
from lintrain.interpreter.core.reader import Reader, weighed
from lintrain.interpreter.core.registry import ENTRIES, OPERATORS, UNPACKED, of_type
from lintrain.model.location import Location
from lintrain.pipeline.values.loading import Collated
from lintrain.pipeline.values.model import Tensor
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Absent,
    Bound,
    Constant,
    Either,
    Library,
    LibraryObject,
    Literal,
    Mapping,
    Sequence,
    Unknown,
    Value,
    join,
    options_of,
)
from lintrain.pipeline.values.tensors import Real, Text, Whole


def known_items(value: Value, most: int) -> list[Value] | None:
    """All items that a loop over a value iterates over, or None if they are not known or too many."""
    match value:
        case Sequence() if value.is_complete and len(value.items) <= most:
            return value.items
        case Mapping() if value.is_complete and len(value.entries) <= most:
            return [Constant(key) for key in value.entries]
        case Collated(content=content):
            return known_items(content, most)
        case _:
            return _known_keys(value, most)


def literal_items(value: Value) -> list[Value]:
    """The literals that are certainly in a list of which more is not known: the -100 of `[-100] * len(ids)`."""
    lists = [each for each in options_of(value) if isinstance(each, Sequence)]
    # Each once: a list that is added to itself again and again must not double.
    literals = {repr(item.value): item for each in lists for item in each.items if isinstance(item, Constant)}
    return [*list(literals.values())[:MOST_LITERALS], UNKNOWN]


MOST_LITERALS = 8


def _known_keys(value: Value, most: int) -> list[Value] | None:
    held = of_type(ENTRIES, value)
    entries, is_complete = held(value) if held else ({}, False)
    return [Constant(key) for key in entries] if is_complete and len(entries) <= most else None


def unpack(reader: Reader, value: Value, count: int, starred: int | None = None) -> list[Value]:
    """What each of `count` targets is bound to; the target numbered `starred` takes what is left over."""
    if isinstance(value, Either):
        # By position: of `a, b = (1, 2) if x else (3, 4)` the first is 1 or 3. Which belong together is
        # lost.
        parts = [unpack(reader, option, count, starred) for option in value.options]
        return [join(options) for options in zip(*parts, strict=True)]
    if isinstance(value, Collated) and starred is not None:
        return unpack(reader, value.content, count, starred)
    if isinstance(value, Sequence) and value.is_complete:
        return _spread(value.items if starred is None else reader.counted(value.items), count, starred)
    if isinstance(value, Sequence) and starred is None and (value.placed or value.knows_items):
        return [_at(reader, value, index) for index in range(count)]
    handler = of_type(UNPACKED, value)
    # A library function that returns a pair of known things says so here: `train, test =
    # train_test_split(x)`.
    known = handler(reader, value, count) if handler and starred is None else None
    if known is not None:
        return known
    if isinstance(value, Unknown):
        return [child(reader, value, f"[{index}]") for index in range(count)]
    return [UNKNOWN] * count


def _at(reader: Reader, value: Sequence, index: int) -> Value:
    """An item of a list that is not all known."""
    return value.items[index] if index < value.placed else apart(element(reader, value))


def _spread(items: list[Value], count: int, starred: int | None) -> list[Value]:
    if starred is None:
        return list(items) if len(items) == count else [UNKNOWN] * count
    after = count - starred - 1
    if len(items) < count - 1:
        return [UNKNOWN] * count
    return [*items[:starred], Sequence(items[starred : len(items) - after]), *items[len(items) - after :]]


def binary(reader: Reader, left: Value, operator: str, right: Value, location: Location) -> Value:
    """What an arithmetic operator gives."""
    # `loss = loss.mean()` under an `if`, then `loss / steps`: the division is that of either.
    if isinstance(left, Either):
        return join([binary(reader, option, operator, right, location) for option in _numbers(left)])
    if isinstance(right, Either):
        return join([binary(reader, left, operator, option, location) for option in _numbers(right)])
    if isinstance(left, Constant) and isinstance(right, Constant):
        return arithmetic.binary(left, operator, right)
    if isinstance(left, Sequence) and isinstance(right, Sequence) and operator == "Add":
        items = [*reader.counted(left.items), *reader.counted(right.items)]
        is_complete = left.is_complete and right.is_complete
        placed = len(left.items) + right.placed if left.is_complete else left.placed
        is_closed = left.knows_items and right.knows_items and not is_complete
        return Sequence(items, left.kind, is_complete, is_closed, 0 if is_complete else placed)
    if isinstance(left, Sequence) and left.kind == "tuple" and operator == "Add" and left.is_complete:
        # Only a tuple is added to a tuple: `(loss,) + outputs`.
        return Sequence([*reader.counted(left.items)], "tuple", False, False, len(left.items))
    if isinstance(left, Sequence) and operator == "Mult" and isinstance(right, Constant):
        reader.counted(left.items)
        return arithmetic.repeat(left, right.value)
    if isinstance(left, Sequence) and operator == "Mult":
        return Sequence([*reader.counted(left.items)], left.kind, False)
    if (isinstance(left, Whole | Real) or isinstance(right, Whole | Real)) and _is_number(left) and _is_number(right):
        is_whole = _is_whole(left) and _is_whole(right) and operator in WHOLE
        return Whole(origin=location) if is_whole else Real(origin=location) if operator in FRACTIONS else UNKNOWN
    return _operate(reader, left, operator, right, location)


WHOLE = frozenset({"Add", "Sub", "Mult", "FloorDiv", "Mod"})
FRACTIONS = WHOLE | {"Div"}
"""Operators that give a whole number of whole numbers, and those that give a number."""


def _is_whole(value: Value) -> bool:
    return isinstance(value, Whole) or (isinstance(value, Constant) and type(value.value) is int)


def _is_number(value: Value) -> bool:
    return _is_whole(value) or isinstance(value, Real) or (isinstance(value, Constant) and type(value.value) is float)


def _numbers(value: Either) -> tuple[Value, ...]:
    """The options that code computes with: it knows that a value is not None."""
    return tuple(option for option in value.options if not arithmetic.is_none(option)) or value.options


def compare(reader: Reader, left: Value, operator: str, right: Value, location: Location) -> Value:
    """What a comparison gives."""
    if isinstance(left, Constant) and isinstance(right, Constant):
        return arithmetic.compare(left, operator, right)
    if operator in {"Is", "IsNot", "Eq", "NotEq"} and (arithmetic.is_none(left) or arithmetic.is_none(right)):
        other = right if arithmetic.is_none(left) else left
        # Anything that was understood is an object, and no object is None: `if model is not None` goes one
        # way. An Either may have None among its options, an Unknown may be it, and a Constant has been
        # compared above.
        if not isinstance(other, Unknown | Either | Constant | Absent):
            return Constant(operator in {"IsNot", "NotEq"})
    if operator in {"In", "NotIn"} and isinstance(left, Constant):
        weighed(reader, right)
        known = arithmetic.contains(right, left)
        if known is not None:
            return Constant(known is (operator == "In"))
    return _operate(reader, left, operator, right, location)


def _operate(reader: Reader, left: Value, operator: str, right: Value, location: Location) -> Value:
    # `loss = loss.mean()` under an `if`, then `loss / steps`: the division is that of either tensor.
    if isinstance(left, Either) and _are_tensors(left):
        return join([_operate(reader, option, operator, right, location) for option in left.options])
    if isinstance(right, Either) and _are_tensors(right):
        return join([_operate(reader, left, operator, option, location) for option in right.options])
    # Left before right, as Python asks `__add__` before `__radd__`. The handler gets both, in the order of
    # the code.
    for operand in (left, right):
        handler = of_type(OPERATORS, operand)
        result = handler(reader, left, operator, right, location) if handler else None
        if result is not None:
            return result
    return UNKNOWN


def _are_tensors(value: Either) -> bool:
    return all(isinstance(option, Tensor) for option in value.options)


def truth(value: Value) -> bool | None:
    """Whether a value counts as true in a test; None if that is not certain."""
    match value:
        case Constant():
            # A default may be overruled on the command line: both ways of `if args.fp16:` are read, even if
            # it is False.
            return None if value.default else bool(value.value)
        case Sequence(kind="generator"):
            return True
        case Sequence():
            # `[]` that is complete is false for certain. One that something was appended to in a loop may
            # be anything.
            return bool(value.items) if value.is_complete else None
        case Mapping():
            return bool(value.entries) if value.is_complete else None
        case Unknown() | Either() | LibraryObject() | Bound() | Absent() | Library():
            return None
        case _:
            return arithmetic.counts_as_true(value)


def extend(reader: Reader, receiver: Value, items: Iterable[Value], *, is_known: bool = True) -> None:
    """Add items to a list: `append`, `extend` and `+=`."""
    if not isinstance(receiver, Sequence):
        return
    receiver.items.extend(items)
    # In a loop the list grows with each iteration, and the body is read once: more items than these may be in it.
    certain = is_known and not reader.loops and not reader.conditions
    receiver.is_closed = receiver.knows_items and is_known
    receiver.is_complete = receiver.is_complete and certain


def text_of_parts(reader: Reader, parts: Iterable[Value], location: Location) -> Text:
    """The text that code puts together out of these parts."""
    made = Text.of(parts, location)
    reader.record.texts.append(made)
    return made


def update(reader: Reader, entries: dict[Literal, Value], other: Value) -> bool:
    """Add the entries of another mapping; False if some of them are not known."""
    if isinstance(other, Mapping):
        entries.update(reader.counted(other.entries))
        return other.is_complete
    held = of_type(ENTRIES, other)
    if held is None:
        # The unknown mapping may overwrite any key, so none of the known values is certain.
        entries.update(dict.fromkeys(reader.counted(entries), UNKNOWN))
        return False
    added, is_complete = held(other)
    entries.update(reader.counted(added))
    return is_complete
