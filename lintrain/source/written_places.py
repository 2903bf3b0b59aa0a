"""A place as people and editors write it."""

from __future__ import annotations

from collections.abc import Callable

from lintrain.model.location import Place
from lintrain.source.source import Source
from lintrain.text.shown import shown

FindSource = Callable[[str], Source | None]


def place_of(place: Place, find_source: FindSource) -> str:
    """A place as people and editors write it: `path:line:column`, in a notebook `path:cell 2:line:column`."""
    source = find_source(place.path)
    if source is None:
        return shown(str(place))
    location = source.locate(place)
    cell = f"cell {location.cell}:" if location.cell is not None else ""
    return f"{shown(place.path)}:{cell}{location.line}:{location.column}"


def line_of(place: Place, find_source: FindSource) -> str:
    """The line of a place: `path:line`, in a notebook `path:cell 2:line`."""
    where = place_of(place, find_source)
    return where.rpartition(":")[0] or where
