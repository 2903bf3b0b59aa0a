"""Arithmetic and comparisons of literals, bounded so that no script can make the reader work long."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from lintrain.pipeline.values.data import Dataset, DatasetDict, Tokenizer
from lintrain.pipeline.values.model import Model, Optimizer
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Class,
    Constant,
    Function,
    Literal,
    Mapping,
    Sequence,
    Value,
    constant,
)

LARGEST = 10**15
"""Integers up to this size are computed with."""

MOST_ITEMS = 64
"""A repeated list up to this length is known item by item."""

LONGEST = 10_000
"""Characters up to which strings are put together."""

Operator = Callable[[Any, Any], Any]
"""Any: the operands are literals of any type; a TypeError means Unknown."""

BINARY: dict[str, Operator] = {
    "Add": lambda left, right: left + right,
    "Sub": lambda left, right: left - right,
    "Mult": lambda left, right: left * right,
    "Div": lambda left, right: left / right,
    "FloorDiv": lambda left, right: left // right,
    "Mod": lambda left, right: left % right,
    "Pow": lambda left, right: left**right,
}

COMPARISONS: dict[str, Operator] = {
    "Eq": lambda left, right: left == right,
    "NotEq": lambda left, right: left != right,
    "Lt": lambda left, right: left < right,
    "LtE": lambda left, right: left <= right,
    "Gt": lambda left, right: left > right,
    "GtE": lambda left, right: left >= right,
    "Is": lambda left, right: _is_same(left, right),
    "IsNot": lambda left, right: not _is_same(left, right),
    "In": lambda item, container: item in container,
    "NotIn": lambda item, container: item not in container,
}


def _is_same(left: object, right: object) -> bool:
    """Whether two literals are one object: Python makes one of equal names and small numbers in a file."""
    return left is right or (isinstance(left, str | int) and type(left) is type(right) and left == right)


def binary(left: Constant, operator: str, right: Constant) -> Value:
    """What an operator gives of two literals; Unknown if it is too large or no such operation exists."""
    compute = BINARY.get(operator)
    if compute is None or not _is_small(left) or not _is_small(right) or _grows_too_much(left, operator, right):
        return UNKNOWN
    try:
        # The bounds above come first: `"a" * 10**9` or `9**9**9` must not be computed to learn that they
        # are too large.
        result = compute(left.value, right.value)
    except (TypeError, ValueError, ArithmeticError):
        return UNKNOWN
    if not isinstance(result, int | float | str):
        return UNKNOWN
    # What is computed from a default is one: `steps // args.accumulation` changes with the command line.
    return constant(result, left.default or right.default)


def _is_small(constant: Constant) -> bool:
    match constant.value:
        case int() | float() as number:
            return abs(number) <= LARGEST
        case str() as text:
            return len(text) <= LONGEST
        case _:
            return False


def _grows_too_much(left: Constant, operator: str, right: Constant) -> bool:
    if operator == "Pow" and not isinstance(left.value, float):  # a power of a float has the size of a float
        return not isinstance(right.value, int | float) or abs(right.value) > 64
    texts = isinstance(left.value, str) or isinstance(right.value, str)
    if operator == "Mult" and texts:
        # A text of 10,000 characters times 100 is a million, which is still built in less than a
        # millisecond.
        return any(isinstance(each.value, int) and each.value > 100 for each in (left, right))
    # `"%1000000000d" % 1` is short code for a text of a gigabyte.
    return operator == "Mod" and texts


def together(parts: Iterable[Constant]) -> Value:
    """The text of literals one after the other; Unknown if it is too long."""
    text, default = "", None
    for part in parts:
        text, default = text + str(part.value), default or part.default
        if len(text) > LONGEST:
            return UNKNOWN
    return constant(text, default)


def repeat(items: Sequence, count: Literal) -> Sequence:
    """A list times a number; if it gets long, it is known by one round of its items."""
    if isinstance(count, int) and abs(count) <= LARGEST and 0 <= count * len(items.items) <= MOST_ITEMS:
        return Sequence(items.items * count, items.kind, items.is_complete)
    # `[0] * n` with an unknown `n` holds zeros, how many is not known. The items stay: a loop over it gets
    # a zero.
    return Sequence(list(items.items), items.kind, False, items.knows_items)


def compare(left: Constant, operator: str, right: Constant) -> Value:
    """What a comparison gives of two literals."""
    decide = COMPARISONS[operator]
    try:
        result = bool(decide(left.value, right.value))
    except (TypeError, ValueError):  # the latter: `300 in b""`
        return UNKNOWN
    return constant(result, left.default or right.default)


def is_none(value: Value) -> bool:
    """Whether a value is certainly None."""
    return isinstance(value, Constant) and value.value is None and not value.default


def counts_as_true(value: Value) -> bool | None:
    """Whether an object counts as true in a test: what has no length does; None if that is not certain."""
    return True if isinstance(value, Function | Class | Model | Optimizer | Tokenizer | Dataset | DatasetDict) else None


def contains(container: Value, item: Constant) -> bool | None:
    """Whether a container of literals holds one; None if that is not certain."""
    if item.default:
        return None
    match container:
        case Mapping() if container.is_complete or item.value in container.entries:
            return item.value in container.entries
        case Sequence() if container.is_complete and all(isinstance(each, Constant) for each in container.items):
            return any(isinstance(each, Constant) and each.value == item.value for each in container.items)
        case _:
            return None
