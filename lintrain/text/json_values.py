"""Values for strict JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import cast


def plain(value: object) -> object:
    """A value with non-finite numbers as strings, as strict JSON requires."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        entries = cast("Mapping[object, object]", value)
        return {str(name): plain(inner) for name, inner in entries.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in cast("list[object]", value)]
    return value
