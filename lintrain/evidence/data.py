"""What a probe measures of the data sets of a run: their columns, samples, shared and conflicting rows.

What a probe measured of a run's token ids: its tokenizer, and the ids of its batches next to their labels.
"""

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


@dataclass(frozen=True, slots=True)
class TokenizerEvidence:
    """The tokenizer of a run: its class, the number of its tokens, and its special ids (None where it has none).

    `checkpoint` is the name or folder that it was loaded from. `adds_bos` and `adds_eos` say whether it adds these to
    a text. `shared` is the share of the tokens of the model's own tokenizer that have the same id here, None if that
    tokenizer is not on this machine.
    """

    name: str
    checkpoint: str
    tokens: int
    pad_id: int | None = None
    eos_id: int | None = None
    bos_id: int | None = None
    mask_id: int | None = None
    adds_bos: bool = False
    adds_eos: bool = False
    shared: float | None = None


@dataclass(frozen=True, slots=True)
class LabelEvidence:
    """Labels of int64 [rows, tokens] next to the ids of the same shape, over the probed batches.

    `supervised` labels are not -100, `copied` of them repeat the id at their position, `masked_inputs` are at
    positions whose input is the mask token. `eos_attended` counts end-of-text ids that are attended, `eos_supervised`
    those with a label; `rows_without` have no supervised label. `pad_supervised` labels are scored where nothing is
    attended.
    """

    rows: int
    attended: int
    supervised: int
    copied: int
    masked_inputs: int
    eos_attended: int
    eos_supervised: int
    rows_without: int
    pad_supervised: int


@dataclass(frozen=True, slots=True)
class EdgeEvidence:
    """How the attended ids of rows begin and end, over the probed batches.

    `most_frequent_last` counts the rows that end with the one id that most of them end with; `equal_lengths` says that
    all rows hold as many tokens, as blocks do, or as rows do that were cut.
    """

    rows: int
    starts_with_bos: int
    starts_with_two_bos: int
    ends_with_eos: int
    most_frequent_last: int
    highest_id: int
    equal_lengths: bool = False


@dataclass(frozen=True, slots=True)
class ScoredTokens:
    """Counts over the probed batches; None if labels and tokens do not correspond by position.

    `scored` labels are not -100; `padding` of them are on padding. `equal_to_inputs` are those that repeat the input
    of the same position, `equal_to_next` those that repeat the next input (of `with_next` that have one), and
    `equal_to_decoder` those that the decoder receives at the same position.
    """

    scored: int
    padding: int | None = None
    equal_to_inputs: int | None = None
    equal_to_next: int | None = None
    with_next: int = 0
    equal_to_decoder: int | None = None

    def plus(self, other: ScoredTokens) -> ScoredTokens:
        """The counts of two batches together."""
        return ScoredTokens(
            self.scored + other.scored,
            _sum(self.padding, other.padding),
            _sum(self.equal_to_inputs, other.equal_to_inputs),
            _sum(self.equal_to_next, other.equal_to_next),
            self.with_next + other.with_next,
            _sum(self.equal_to_decoder, other.equal_to_decoder),
        )


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
