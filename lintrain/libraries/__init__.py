"""What the functions and values of libraries do: one module or folder per library."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules


@cache
def load_libraries() -> None:
    """Register every library's transfer functions."""
    for library in iter_modules(__path__):
        package = import_module(f"{__name__}.{library.name}")
        for module in iter_modules(getattr(package, "__path__", ())):
            import_module(f"{package.__name__}.{module.name}")
