"""What a probe measures of the data sets of a run: their columns, samples, shared and conflicting rows."""

from __future__ import annotations

from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ColumnEvidence:
    """One column of a split: its feature kind (`text`, `integer`, `class label`, `token ids`, …) and its range.

    `counts` holds how often each label value occurs, as [value, rows]; `names` the class names; `lengths` the
    shortest, median, 95th percentile and longest list of a list column (entries), `length_bins` how many rows have
    which lengths, as [first, last, rows]. `rows_read` is the number of rows on which these are based: all of them,
    except for data sets that give only one row at a time.
    """

    name: str
    kind: str
    dtype: str
    minimum: float | None = None
    maximum: float | None = None
    counts: tuple[tuple[int, int], ...] = ()
    names: tuple[str, ...] = ()
    lengths: tuple[int, ...] = ()
    rows_read: int = 0
    non_finite: int = 0
    length_bins: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """One row as the model sees it, decoded, with its label by number and name."""

    text: str
    label: str
    label_name: str | None = None


@dataclass(frozen=True, slots=True)
class SplitEvidence:
    """One dataset as the run was given it: by which argument (`train_dataset`, `eval_dataset`), its columns and rows.

    `key` is its name in a dictionary of datasets; `kind` its class.
    """

    argument: str
    rows: int | None
    columns: tuple[ColumnEvidence, ...]
    key: str | None = None
    samples: tuple[Sample, ...] = ()
    label_column: str | None = None
    kind: str = ""

    @property
    def column_names(self) -> set[str]:
        """The names of the columns."""
        return {column.name for column in self.columns}

    def column(self, name: str) -> ColumnEvidence | None:
        """One column by its name, or None if the split has no such column."""
        return next((column for column in self.columns if column.name == name), None)

    @property
    def labels(self) -> ColumnEvidence | None:
        """The label column, or None if the split has none."""
        return self.column(self.label_column) if self.label_column else None


@dataclass(frozen=True, slots=True)
class SharedRows:
    """How many of the compared evaluation rows are training rows, too."""

    shared: int
    looked_at: int


@dataclass(frozen=True, slots=True)
class LabelConflicts:
    """Rows of a dataset of `rows` rows, `compared` of them, that share all texts with a row of another label."""

    rows: int
    compared: int
    conflicting: int
    inputs: tuple[str, ...]
    label: str
