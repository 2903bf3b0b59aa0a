"""How many batches a loader gives, and what is computed from that."""

from __future__ import annotations

import re

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import function, method, operated
from lintrain.model.location import Location
from lintrain.pipeline.values.counts import Count, computed
from lintrain.pipeline.values.loading import Loader
from lintrain.pipeline.values.python import UNKNOWN, Unknown, Value
from lintrain.startup.lazy_pattern import lazy_pattern

LOADER_NAME = lazy_pattern(r"(loader|_dl|batches)$", re.IGNORECASE)
"""Names by which scripts call what gives batches."""


@method(Loader, "__len__")
@method(Unknown, "__len__")
def _batches(call: Call) -> Value:
    """How many batches a loader gives; an unknown thing is a loader if its name says so."""
    over = call.receiver
    if isinstance(over, Unknown) and not LOADER_NAME.search(over.name):
        return UNKNOWN
    return Count(over, made_at=len(call.reader.record.events), origin=call.location)


@operated(Count)
def _compute(reader: Reader, left: Value, operator: str, right: Value, location: Location) -> Value | None:
    return computed(left, operator, right, location)


@function("math.ceil", "math.floor")
def _rounded(call: Call) -> Value:
    value = call.value("number", 0)
    return value if isinstance(value, Count) else UNKNOWN
