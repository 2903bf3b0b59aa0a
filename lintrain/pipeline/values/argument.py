"""One argument of a call in the script."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lintrain.model.location import Location
from lintrain.pipeline.values.python import Value
from lintrain.startup.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from lintrain.source.source import Source


@dataclass(slots=True)
class Argument:
    """One argument of a call: its value, and where its expression stands in which file; without one it has no code."""

    value: Value
    location: Location
    source: Source | None = None
    keyword: Location | None = None
    """The place of `name=value` as a whole, where it was given by name."""
    named_at: Location | None = None
    """Where the name was written that came in through `**options`: a key or a keyword of another call."""

    @property
    def text(self) -> str:
        """Its code."""
        return self.source.code(self.location) if self.source else ""
