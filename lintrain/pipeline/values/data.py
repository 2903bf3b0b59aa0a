"""Data sets, their columns, and what is made of their rows."""

from __future__ import annotations

from collections import abc
from collections.abc import Iterable
from dataclasses import field, replace

from lintrain.model.finding import Related
from lintrain.model.location import Location
from lintrain.pipeline.values.certainty import UNCERTAIN, Default, is_uncertain
from lintrain.pipeline.values.columns import Column as Column
from lintrain.pipeline.values.columns import Cut as Cut
from lintrain.pipeline.values.columns import Kind as Kind
from lintrain.pipeline.values.columns import Padding as Padding
from lintrain.pipeline.values.python import ABSENT, UNKNOWN, Constant, Literal, Sequence, Unknown, Value
from lintrain.pipeline.values.tensors import TokenSetting
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    """One operation in a data set's life: its name (`load_dataset`, `map`), its location and its code."""

    operation: str
    location: Location
    text: str


@dataclass(eq=False, slots=True)
class Dataset(Value):
    """Rows with columns: `columns` is None if they are not known; `is_complete` if there are no others.

    `parent` is the data set that it was derived from; `set_transform` and `set_format` change it in place. `hidden`
    are the columns that a format leaves out. `read_as_text` holds the columns that some code hands to a tokenizer, and
    is shared by the data sets with the same columns. `is_unchanged` if its last operation left rows and columns
    alone, None if that is not known. `sorted_by` names the column that it was sorted by when it was loaded,
    `is_unlabelled` if its labels are all -1.
    `cut` are the rows that its last step kept, if it took consecutive ones. `needs` are the columns
    that its transform certainly reads. `rest` is `read_as_text` of the ancestor whose unknown columns are the only
    unknown ones here, None if it is this one's own; `shown` are those of them that code certainly reads. `depth`
    counts the conditions around the place where it was made.
    """

    columns: dict[str, Column] | None = None
    is_complete: bool = False
    steps: tuple[Step, ...] = ()
    parent: Value | None = None
    split: str | None = None
    has_transform: bool = False
    transform: Value = ABSENT
    is_streaming: bool = False
    default: Default | None = None
    rows: int | None = None
    hub_name: str | None = None
    config: str | None = None
    library: str = "datasets"
    hidden: dict[str, Column] = field(default_factory=lambda: {})
    format: str | None = None
    read_as_text: dict[str, Location] = field(default_factory=lambda: {})
    is_unchanged: bool | None = False
    sorted_by: str | None = None
    is_unlabelled: bool = False
    cut: Cut | None = None
    needs: dict[str, Location] = field(default_factory=lambda: {})
    rest: dict[str, Location] | None = None
    shown: frozenset[str] = frozenset()
    depth: int = 0

    @property
    def unknown_columns(self) -> dict[str, Location]:
        """By identity: whose unknown columns are in it, besides those that are known."""
        return self.read_as_text if self.rest is None else self.rest

    @property
    def may_differ(self) -> bool:
        """Whether other rows are as likely: which ones they are rests on a default that is not an option's."""
        return is_uncertain(self.default)

    @property
    def is_withheld(self) -> bool:
        """Whether a rule is asked what it finds without the option that names the data set."""
        return self.default is not None and bool(self.default.option) and self.may_differ

    @property
    def is_tokenized(self) -> bool:
        """Whether it certainly has a column of token ids."""
        return any(column.kind is Kind.TOKENS for column in (self.columns or {}).values())

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The names of the columns known to hold text."""
        return tuple(column.name for column in (self.columns or {}).values() if column.kind is Kind.TEXT)

    @property
    def label(self) -> Column | None:
        """The column that a transformers model reads its labels from, or None if it is not known."""
        columns = self.columns or {}
        return next((columns[name] for name in ("labels", "label", "label_ids") if name in columns), None)

    @property
    def operations(self) -> tuple[str, ...]:
        """The names of the operations that made it, in order."""
        return tuple(step.operation for step in self.steps)

    @property
    def lineage(self) -> tuple[Dataset, ...]:
        """The data set itself and those that it was derived from, nearest first."""
        ancestors: list[Dataset] = [self]
        while isinstance(ancestors[-1].parent, Dataset) and len(ancestors) < 64:
            ancestors.append(ancestors[-1].parent)
        return tuple(ancestors)

    def merged(self, others: abc.Sequence[Value]) -> Value | None:
        """Data sets of several branches: the columns that all of them have; which rows they are is not certain."""
        sets = [self, *(each for each in others if isinstance(each, Dataset))]
        if len(sets) <= len(others) or any(each.library != self.library for each in sets):
            return None
        parts = [each.columns or {} for each in sets]
        common = {name: _common([part[name] for part in parts]) for name in parts[0] if all(name in p for p in parts)}
        is_complete = all(each.is_complete and len(each.columns or {}) == len(common) for each in sets)
        return replace(
            self,
            columns=common or None,
            is_complete=is_complete,
            default=UNCERTAIN,
            rows=None,
            cut=Cut(),
            hidden={},
            read_as_text={},
            rest=None,
            shown=frozenset(),
            has_transform=any(each.has_transform for each in sets),
            transform=ABSENT,
        )

    def origins(self, note: str = "made here") -> tuple[Related, ...]:
        """The place where the data set was first made."""
        return tuple(Related(step.location, note, "origin", step.text) for step in self.steps[:1])


def _common(columns: abc.Sequence[Column]) -> Column:
    """What columns of one name have in common."""
    first = columns[0]
    if all(each == first for each in columns):
        return first
    is_alike = all(each.kind is first.kind for each in columns)
    return Column(first.name, first.kind if is_alike else Kind.UNKNOWN)


@dataclass(eq=False, slots=True)
class DatasetDict(Value):
    """Splits by name; `template` stands for the splits whose names are not known.

    `parent` is the DatasetDict that it was derived from.
    """

    splits: dict[str, Dataset] = field(default_factory=lambda: {})
    template: Dataset | None = None
    is_complete: bool = False
    parent: DatasetDict | None = None
    depth: int = 0

    def split(self, name: str) -> Dataset | None:
        """One split by its name, or None if there is none such; the same one each time."""
        if name not in self.splits and self.template is not None and not self.is_complete:
            above = self.parent.split(name) if self.parent else self.template.parent
            self.splits[name] = replace(self.template, split=name, parent=above)
        return self.splits.get(name)

    def some_split(self, code: str) -> Dataset | None:
        """The split whose name is not known, by the code of its name: two such may be different ones."""
        if code not in self.splits and self.template is not None:
            above = self.parent.some_split(code) if self.parent else self.template.parent
            self.splits[code] = replace(self.template, parent=above)
        return self.splits.get(code)

    def every(self) -> Iterable[Dataset]:
        """All its data sets that are known."""
        return [*self.splits.values(), *([self.template] if self.template else [])]


@dataclass(eq=False, slots=True)
class Rows(Value):
    """What a mapped function, a collator or a loop gets of a data set: one row, or a batch of rows by columns.

    `items` holds what code put into it since, by key; `removed` what it took out, `reads` what it looked at; `needs`
    are the columns without which that code certainly fails, and where it reads them.
    """

    dataset: Value = UNKNOWN
    is_batch: bool = True
    items: dict[Literal, Value] = field(default_factory=lambda: {})
    removed: set[str] = field(default_factory=set[str])
    reads: set[str] = field(default_factory=set[str])
    needs: dict[str, Location] = field(default_factory=lambda: {})
    is_open: bool = False
    depth: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether code put nothing into it and took nothing out."""
        return not self.items and not self.removed and not self.is_open

    @property
    def columns(self) -> dict[str, Column]:
        """The columns that are in it still, those that code put into it left out."""
        known = (self.dataset.columns if isinstance(self.dataset, Dataset) else None) or {}
        return {name: column for name, column in known.items() if name not in self.removed}


@dataclass(eq=False, slots=True)
class ColumnValues(Value):
    """The values of one column of a data set, of a batch, of a row or of an Encoding: `dataset` is that owner.

    `stretch` is the code in the brackets where they are a slice of it. `whole` are the values that a loop takes this
    row of: what is done to the row is done to them. `axes` counts the axes of an array of them, where that is known:
    0 of one number, 1 of a column, 2 or 3 of an image.
    """

    column: Column
    dataset: Value = UNKNOWN
    stretch: str = ""
    whole: ColumnValues | None = None
    axes: int | None = None

    def copied(self, origin: Location | None) -> ColumnValues:
        """A copy, which remembers the column that it was made of, through other copies as well."""
        column = replace(self.column, copied_from=self.column.copied_from or self.column.name)
        return ColumnValues(column, self.dataset, self.stretch, axes=self.axes, origin=origin)

    def merged(self, others: abc.Sequence[Value]) -> Value | None:
        """Values that are of one kind, and padded alike: which column they are of is not known."""
        values = [self, *(each for each in others if isinstance(each, ColumnValues))]
        columns = [each.column for each in values]
        is_alike = len({(column.kind, column.padding, column.is_stacked) for column in columns}) == 1
        if len(values) <= len(others) or not is_alike or self.column.kind is Kind.UNKNOWN:
            return None
        names = {column.name for column in columns}
        like = Column(names.pop() if len(names) == 1 else "", self.column.kind, padding=self.column.padding)
        owners = {id(each.dataset) for each in values}
        column = replace(like, is_masked=any(each.is_masked for each in columns), is_stacked=self.column.is_stacked)
        axes = {each.axes for each in values}
        return ColumnValues(
            column,
            self.dataset if len(owners) == 1 else UNKNOWN,
            axes=axes.pop() if len(axes) == 1 else None,
        )


@dataclass(eq=False, slots=True)
class ColumnNames(Value):
    """`dataset.column_names` of a data set whose columns are not all known, but for those `without` that code left out.

    `depth` counts the conditions around the place where they were listed.
    """

    dataset: Value
    without: frozenset[str] = frozenset()
    depth: int = 0


@dataclass(eq=False, slots=True)
class Features(Value):
    """`dataset.features`: the columns by name, with those that code replaced; UNKNOWN is the `dataset` of others."""

    columns: dict[str, Column]
    is_complete: bool = False
    dataset: Value = UNKNOWN

    @property
    def names(self) -> Value:
        """The names that a loop over them gets; UNKNOWN if they are neither known nor those of a data set."""
        if self.is_complete:
            return Sequence([Constant(name) for name in self.columns])
        return ColumnNames(self.dataset) if isinstance(self.dataset, Dataset) else UNKNOWN


@dataclass(eq=False, slots=True)
class Feature(Value):
    """The type of one column: `ClassLabel(names=...)`, `Value("string")`, `features["label"]`."""

    column: Column


@dataclass(eq=False, slots=True)
class Tokenizer(Value):
    """A tokenizer or processor by its checkpoint; `attributes` holds what the script set on it (`pad_token`).

    `additions` lists what may be added to its vocabulary, `settings` the special tokens it was given,
    `depth` counts the conditions around the place where it was made.
    """

    path: str
    checkpoint: Value = UNKNOWN
    arguments: dict[str, Value] = field(default_factory=lambda: {})
    attributes: dict[str, Value] = field(default_factory=lambda: {})
    additions: list[TokenSetting] = field(default_factory=lambda: [])
    settings: list[TokenSetting] = field(default_factory=lambda: [])
    is_complete: bool = True
    """Whether `arguments` are all that its call was given."""
    depth: int = 0

    @property
    def is_processor(self) -> bool:
        """Whether it takes images or sound as well: what it gives is not all known."""
        return self.path.endswith(("Processor", "Extractor"))


@dataclass(eq=False, slots=True)
class Encoding(Value):
    """What a tokenizer call gave: token columns by name, and what code added to them."""

    tokenizer: Value = UNKNOWN
    columns: dict[str, Column] = field(default_factory=lambda: {})
    items: dict[Literal, Value] = field(default_factory=lambda: {})
    padding: Padding = Padding.UNKNOWN
    truncated: bool | None = None
    max_length: int | None = None
    inputs: Value = UNKNOWN
    arguments: dict[str, Value] = field(default_factory=lambda: {})
    returns_tensors: bool = False
    is_complete: bool = True
    text: str = ""
    depth: int = 0
    has_several: bool = False
    """Whether it certainly encodes the texts of several rows: those of a batch, in a collate function."""


@dataclass(eq=False, slots=True)
class Collator(Value):
    """What makes a batch of rows: a library's collator, or a function of the script.

    `pads`, `tokenizes` and `makes_labels` are None if that is not understood.
    """

    path: str
    arguments: dict[str, Value] = field(default_factory=lambda: {})
    tokenizer: Value = UNKNOWN
    pads: bool | None = None
    tokenizes: bool | None = False
    makes_labels: bool | None = False

    @property
    def name(self) -> str:
        """The last part of the class's or function's path."""
        return self.path.rpartition(".")[2]


@dataclass(eq=False, slots=True)
class CollatedRows(Unknown):
    """The batch that a library's collator makes of rows that code of the script gives it: each of them is like `row`.

    `is_changed` if that code then puts something into the batch.
    """

    collator: Collator | None = None
    row: Value = UNKNOWN
    is_changed: bool = False


@dataclass(frozen=True, slots=True)
class OwnRows:
    """Rows that no library made, as columns: `owner` is an object of the script's class, a list, or a CollatedRows.

    The only step of `rows` is its `__getitem__`, the making of the list, or the call of the collator.
    """

    owner: Value
    rows: Dataset


@dataclass(eq=False, slots=True)
class Slices(Value):
    """A `tf.data.Dataset`: what each of its rows is made of (`(x, y)`, a dictionary)."""

    structure: Value = UNKNOWN
