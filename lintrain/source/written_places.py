"""A location as people and editors write it."""

from __future__ import annotations

from collections.abc import Callable

from lintrain.model.location import Location
from lintrain.source.source import Source
from lintrain.text.shown import shown

FindSource = Callable[[str], Source | None]


def location_of(location: Location, find_source: FindSource) -> str:
    """A location as people and editors write it: `path:line:column`, in a notebook `path:cell 2:line:column`."""
    source = find_source(location.path)
    if source is None:
        return shown(str(location))
    at = source.locate(location)
    cell = f"cell {at.cell}:" if at.cell is not None else ""
    return f"{shown(location.path)}:{cell}{at.line}:{at.column}"


def line_of(location: Location, find_source: FindSource) -> str:
    """The line of a location: `path:line`, in a notebook `path:cell 2:line`."""
    where = location_of(location, find_source)
    return where.rpartition(":")[0] or where
