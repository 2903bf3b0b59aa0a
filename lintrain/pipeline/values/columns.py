"""Columns of data sets: what they hold, and how their rows of tokens are padded.

Parts of data sets whose rows are consecutive.

Frames of pandas whose columns are known, and what is taken out of them.
"""

from __future__ import annotations

from dataclasses import field, replace
from enum import StrEnum

from lintrain.model.location import Location
from lintrain.pipeline.values.certainty import Default, is_uncertain
from lintrain.pipeline.values.python import Sequence, Value
from lintrain.startup.lazy_dataclass import dataclass


class Kind(StrEnum):
    """What a column holds."""

    TEXT = "text"
    TOKENS = "token ids"
    MASK = "mask"
    CLASS = "class label"
    INTEGER = "integer"
    FLOAT = "float"
    LIST = "list"
    IMAGE = "image"
    AUDIO = "audio"
    UNKNOWN = "unknown"


class Padding(StrEnum):
    """How far rows of tokens are padded: not, to the longest of a batch, all to one length, or not understood."""

    NONE = "none"
    LONGEST = "longest"
    FIXED = "fixed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Column:
    """One column: what it holds, its class names in order, how its token rows are padded, and who says so.

    `copied_from` names the column whose values it repeats; `is_masked` says that some of them were set to -100;
    `written` is the text that code put together for it; `is_moved`: its tokens are those after the `input_ids`.
    `made_by` is the tokenizer call that gave its ids; `is_stacked` if each of them has the leading dimension of one
    that such a call leaves with `return_tensors`.
    """

    name: str
    kind: Kind = Kind.UNKNOWN
    class_names: tuple[str, ...] = ()
    num_classes: int | None = None
    shown_classes: int | None = None
    """The number of classes that literal labels show, which count from 0; other rows may have more."""
    padding: Padding = Padding.UNKNOWN
    truncated: bool | None = None
    max_length: int | None = None
    source: str = ""
    copied_from: str = ""
    is_masked: bool = False
    masked_from: str = ""
    """The column whose values it repeats but for those that were set to -100."""
    written: Value | None = None
    item: Kind = Kind.UNKNOWN
    """What the entries of a list are."""
    is_moved: bool = False
    made_by: Value | None = field(default=None, compare=False)
    is_stacked: bool = False

    def named(self, name: str) -> Column:
        """The same column under another name."""
        return replace(self, name=name)


@dataclass(frozen=True, slots=True)
class Cut:
    """Which rows a data set keeps of its source, if they are consecutive: from `first` up to `stop`.

    Counted in rows, or in percent; `first` is None if it is not known which, `stop` where they go to the end. `of`
    counts the rows of the source. `default` if the user may ask for others.
    """

    first: int | None = None
    stop: int | None = None
    of: int | None = None
    is_percent: bool = False
    default: Default | None = None

    @property
    def may_differ(self) -> bool:
        """Whether other rows are as likely: which ones they are rests on a default that is not an option's."""
        return is_uncertain(self.default)

    @property
    def rows(self) -> int | None:
        """How many rows it keeps, None if that is not certain; a source that is shorter has fewer."""
        if self.is_percent or self.may_differ or self.first is None or self.stop is None:
            return None
        return max(0, self.stop - self.first)

    def share(self) -> tuple[float, float] | None:
        """Where it begins and ends in its source, as shares of its rows; None if one of them is not known."""
        if self.first is None or not self.of:
            return None
        return self.first / self.of, min(1.0, (self.of if self.stop is None else self.stop) / self.of)

    def overlaps(self, other: Cut) -> bool | None:
        """Whether two cuts of one source share rows; None if that is not known."""
        if self.first is None or other.first is None or self.is_percent is not other.is_percent:
            return None
        if self.may_differ or other.may_differ:
            return None
        starts_before_end = other.stop is None or self.first < other.stop
        return starts_before_end and (self.stop is None or other.first < self.stop)


@dataclass(eq=False, slots=True)
class DataFrame(Value):
    """A frame: its columns; `is_complete` if there are no others. Code that stores into it changes it in place.

    `rows` and `sorted_by` describe its rows as far as they are certain. `is_numbered` if its index counts the rows from
    0: such an index is no column of a data set made of it. `depth` counts the conditions and loops around its making.
    `width` is the number of columns of a part whose names are not known: `frame.iloc[:, 1:3]`. `gaps` is the code that
    took rows out at random, where the index still has the numbers that the others have in the whole.
    """

    columns: dict[str, Column]
    is_complete: bool
    rows: int | None = None
    sorted_by: str | None = None
    is_numbered: bool = True
    depth: int = 0
    width: int | None = None
    gaps: Location | None = None

    @property
    def count(self) -> int | None:
        """The number of its columns, None if it is not known."""
        return len(self.columns) if self.is_complete else self.width

    def forget(self) -> None:
        """Note that anything may have happened to it."""
        self.columns, self.is_complete = {}, False
        self.rows = self.sorted_by = self.width = self.gaps = None
        self.is_numbered = False

    def put(self, name: str, column: Column) -> None:
        """Set a column, be it there already or not."""
        self.columns = {**self.columns, name: column.named(name)}
        self.width = None
        if self.sorted_by == name:
            self.sorted_by = None

    def become(self, other: DataFrame) -> None:
        """Take over what another one is, as methods with `inplace=True` do."""
        self.columns, self.is_complete, self.width = other.columns, other.is_complete, other.width
        self.rows, self.sorted_by, self.is_numbered = other.rows, other.sorted_by, other.is_numbered
        self.gaps = other.gaps


@dataclass(eq=False, slots=True)
class Series(Value):
    """The values of one column, of the frame that they are a part of; of an unknown kind where code computed them.

    `is_row` if they are those of one row instead, by the names of the columns; `gaps` as in a frame.
    """

    column: Column
    frame: DataFrame | None = None
    is_row: bool = False
    gaps: Location | None = None


@dataclass(eq=False, slots=True)
class Indexer(Value):
    """`frame.loc` and `frame.at`, which read by label; `frame.iloc` and `frame.iat`, which do not."""

    frame: DataFrame
    is_by_label: bool = False


@dataclass(eq=False, slots=True)
class Positions(Value):
    """`series.iloc`: its values by their position, whatever the index is."""

    series: Series


@dataclass(eq=False, slots=True)
class TextMethods(Value):
    """`series.str`."""

    series: Series


def forget_frames(value: Value) -> None:
    """Note that anything may have happened to the frames in a list, because its items cannot be distinguished."""
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
    has_classes = column.num_classes or column.shown_classes
    return replace(column, class_names=(), num_classes=None, shown_classes=None) if has_classes else column
