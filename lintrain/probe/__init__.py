"""The runtime half: runs a script up to its training call in a child process and measures one real batch there.

`lintrain.probe(trainer)` measures inside of one's own process: the package can be called.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _CallableModule(ModuleType):
    """A package whose name is also that of a function; once imported, `lintrain.probe` means the package."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # Any: as `lintrain.inside.probing.probe` takes and gives
        return import_module("lintrain.inside.probing").probe(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule
