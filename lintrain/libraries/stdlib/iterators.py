"""Iterators of the language: what `map`, `filter` and itertools give one after the other."""

from __future__ import annotations

from lintrain.interpreter.core import dispatch, operations
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.registry import function
from lintrain.pipeline.values.python import UNKNOWN, Constant, Sequence, Value, join

MOST_ITEMS = 32
"""Known items up to this number are gone through one by one."""


@function("builtins.map")
def _map(call: Call) -> Value:
    if len(call.positional) < 2 or call.is_open:
        return UNKNOWN
    mapped, *over = (argument.value for argument in call.positional)
    known = [operations.known_items(each, MOST_ITEMS) for each in over]
    items = [each for each in known if each is not None]
    is_complete = len(items) == len(known)
    # Item by item while all are known. Otherwise once, with the element that stands for all: the function's
    # effects are recorded in either case.
    rows = zip(*items, strict=False) if is_complete else [[dispatch.element(call.reader, each) for each in over]]
    return _iterator(
        [dispatch.call(call.reader, mapped, list(row), location=call.location) for row in rows], is_complete
    )


@function("builtins.filter")
def _filter(call: Call) -> Value:
    over, test = call.value("iterable", 1), call.value("function", 0)
    items = operations.known_items(over, MOST_ITEMS)
    if items is None:
        return _iterator([dispatch.element(call.reader, over)], False)
    is_plain = isinstance(test, Constant) and test.value is None
    tests = items if is_plain else [dispatch.call(call.reader, test, [item], location=call.location) for item in items]
    truths = [operations.truth(each) for each in tests]
    # Items that are certainly dropped are gone. Those that may be kept stay, and make the result
    # incomplete.
    kept = [item for item, is_true in zip(items, truths, strict=True) if is_true is not False]
    return _iterator(kept, None not in truths)


@function("itertools.chain")
def _chain(call: Call) -> Value:
    return _joined(call, [argument.value for argument in call.positional], not call.is_open)


@function("itertools.chain.from_iterable")
def _flattened(call: Call) -> Value:
    over = call.value("iterable", 0)
    items = operations.known_items(over, MOST_ITEMS)
    return _joined(call, [dispatch.element(call.reader, over)] if items is None else items, items is not None)


def _joined(call: Call, parts: list[Value], is_complete: bool) -> Value:
    found: list[Value] = []
    for part in parts:
        items = operations.known_items(part, MOST_ITEMS)
        is_complete = is_complete and items is not None
        found.extend([dispatch.element(call.reader, part)] if items is None else items)
    # A loop over the parts gets any of the items: their order is lost as soon as one part has an unknown
    # length.
    return _iterator(found if is_complete else [join(found)] if found else [UNKNOWN], is_complete)


@function("itertools.cycle", "itertools.repeat", "itertools.islice")
def _some(call: Call) -> Value:
    """Any number of what is given."""
    over = call.value("iterable", 0)
    is_repeat = call.path == "itertools.repeat"
    return _iterator([over if is_repeat else dispatch.element(call.reader, over)], False)


def _iterator(items: list[Value], is_complete: bool) -> Sequence:
    return Sequence(items, "generator", is_complete)
