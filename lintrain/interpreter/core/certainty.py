"""Whether the code being read certainly runs when its function is called."""

from __future__ import annotations

from lintrain.interpreter.core.reader import Reader


def is_certain(reader: Reader) -> bool:
    """Whether no condition of the function being read, and no `try`, decides whether this code runs."""
    return not reader.guards and not reader.alternatives and len(reader.conditions) <= reader.frame.depths[1]
