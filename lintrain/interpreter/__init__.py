"""Reading a script without running it: what its code does to the values that the pipeline records."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules


@cache
def load_language() -> None:
    """Register what every kind of expression, statement and callee does."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
