"""The libraries of the probed script, read without types."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any


def library(name: str) -> Any:  # Any: probes meet many versions of these libraries, no one stub fits all
    """A module of the script's own environment."""
    return import_module(name)


def loaded(name: str) -> Any | None:  # Any: as above
    """A module if the script has already imported it, else None."""
    return sys.modules.get(name)


def version_of(package: str) -> str | None:
    """The version of an imported package, or None if the script did not import it."""
    version = getattr(loaded(package), "__version__", None)
    return str(version) if version else None
