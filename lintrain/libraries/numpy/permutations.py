"""Orders of rows, as NumPy draws them: what they index has its rows in another order, and is what it was."""

from __future__ import annotations

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.registry import function, method
from lintrain.pipeline.values.python import UNKNOWN, LibraryObject, Unknown, Value
from lintrain.startup.lazy_pattern import lazy_pattern

GENERATORS = frozenset({"numpy.random.default_rng", "numpy.random.RandomState", "numpy.random.Generator"})
LENGTH = lazy_pattern(r"\d+|len\([\w.]+\)|[\w.]+\.shape\[0\]")
"""Code that is a number for certain."""

DRAWN = "numpy.random.permutation(…)"
"""The name of a drawn order, of which no more is known."""


def is_permutation(value: Value) -> bool:
    """Whether a value is certainly the numbers of some rows, each once, in a drawn order."""
    return isinstance(value, Unknown) and value.name == DRAWN


@function("numpy.random.permutation")
def _permutation(call: Call) -> Value:
    """The numbers up to a length; of an array, its own items."""
    given = call.argument("x", 0)
    is_length = given is not None and (
        given.text.startswith("len(") or given.text.isdigit() or ".shape[0]" in given.text
    )
    return Unknown(name=DRAWN) if is_length else UNKNOWN


@method(LibraryObject, "permutation")
def _drawn_permutation(call: Call) -> Value:
    made = call.receiver
    return _permutation(call) if isinstance(made, LibraryObject) and made.path in GENERATORS else UNKNOWN
