"""Frames of pandas whose columns are known, and what is taken out of them."""

from __future__ import annotations

from dataclasses import replace

from lintrain.pipeline.values.columns import Column, Kind
from lintrain.pipeline.values.python import Sequence, Value
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(eq=False, slots=True)
class DataFrame(Value):
    """A frame: its columns; `is_complete` where there are no others. Code that stores into it changes it in place.

    `rows` and `sorted_by` tell of its rows what is certain. `is_numbered` where its index counts the rows from 0: such
    an index is no column of a data set made of it. `depth` counts the conditions and loops around its making.
    """

    columns: dict[str, Column]
    is_complete: bool
    rows: int | None = None
    sorted_by: str | None = None
    is_numbered: bool = True
    depth: int = 0

    def forget(self) -> None:
        """Note that anything may have happened to it."""
        self.columns, self.is_complete = {}, False
        self.rows = self.sorted_by = None
        self.is_numbered = False

    def put(self, name: str, column: Column) -> None:
        """Set a column, be it there already or not."""
        self.columns = {**self.columns, name: column.named(name)}
        if self.sorted_by == name:
            self.sorted_by = None

    def become(self, other: DataFrame) -> None:
        """Take over what another one is, as methods with `inplace=True` do."""
        self.columns, self.is_complete = other.columns, other.is_complete
        self.rows, self.sorted_by, self.is_numbered = other.rows, other.sorted_by, other.is_numbered


@dataclass(eq=False, slots=True)
class Series(Value):
    """The values of one column, of the frame that they are a part of; of an unknown kind where code computed them."""

    column: Column
    frame: DataFrame | None = None


@dataclass(eq=False, slots=True)
class Indexer(Value):
    """`frame.loc`, `frame.iloc`."""

    frame: DataFrame


@dataclass(eq=False, slots=True)
class TextMethods(Value):
    """`series.str`."""

    series: Series


def forget_frames(value: Value) -> None:
    """Note that anything may have happened to the frames in a list, whose items cannot be told apart."""
    match value:
        case DataFrame():
            value.forget()
        case Sequence(items=items):
            for item in items:
                forget_frames(item)
        case _:
            pass


def computed(kind: Kind = Kind.UNKNOWN) -> Series:
    """Values that code made of others, in a column without a name."""
    return Series(Column("", kind))


def in_part(column: Column) -> Column:
    """The column in some of the rows, where not every class need be left."""
    return replace(column, class_names=(), num_classes=None) if column.num_classes else column
