"""`sum` of numbers, and of the losses that a list, a dictionary or a generator gives one after the other."""

from __future__ import annotations

from lintrain.interpreter.core import operations
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.registry import function
from lintrain.pipeline.record import Arithmetic
from lintrain.pipeline.values.model import Tensor
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Absent,
    Constant,
    Sequence,
    Value,
    constant,
    first_default,
    options_of,
)

MOST_TERMS = 64
"""Items of a list up to which each is added; more are rare, and losses of one kind have the same sum."""


@function("builtins.sum")
def _sum(call: Call) -> Value:
    over, start = call.value("iterable", 0), call.value("start", 1)
    if not isinstance(over, Sequence):
        return UNKNOWN
    terms = over.items if isinstance(start, Absent) else [start, *over.items]
    # One loss among them is enough: `sum` of the others is added to it, whatever they are.
    if any(isinstance(option, Tensor) for term in terms for option in options_of(term)):
        return _of_tensors(call, terms, is_whole=over.is_complete)
    numbers = [term.value for term in terms if isinstance(term, Constant) and isinstance(term.value, int | float)]
    if not over.is_complete or not numbers or len(numbers) != len(terms):
        return UNKNOWN
    return constant(sum(numbers), first_default(*terms))


def _of_tensors(call: Call, terms: list[Value], *, is_whole: bool) -> Value:
    """What `+` makes of all terms; a list of unknown length is its items, each at least once more."""
    # The last item twice, so that a sum of one known item is no copy of it.
    total, *others = call.reader.counted([*terms, *([] if is_whole else terms[-1:])][:MOST_TERMS])
    for term in others:
        total = _added(call, total, term)
    return total


def _added(call: Call, total: Value, term: Value) -> Value:
    result = operations.binary(call.reader, total, "Add", term, call.location)
    first, second = (part.text if isinstance(part, Tensor) else "" for part in (total, term))
    made = Arithmetic(result, "Add", total, term, first, second, call.location)
    call.reader.record.arithmetic[id(result)] = made
    return result
