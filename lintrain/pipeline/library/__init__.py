"""What the libraries' functions and values do, one file per library."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules


@cache
def load_libraries() -> None:
    """Register every library's transfer functions."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
