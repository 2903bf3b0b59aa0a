"""Rows of a collated batch as the model gets them: each entry decoded or summarized, its label, and the prediction."""

from __future__ import annotations

from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """The positions `first` to `last` of a row, both included, that hold the same value."""

    value: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class RowText:
    """One entry of a row as text: token ids decoded with their special tokens, or a text that the batch holds.

    For token ids: `tokens` is the length of the row, `attended` of them are read and decoded, `padding` is the side
    of the rest (`left`, `right`, `both`, `inside`, "" for none). `mask` is empty where the attended tokens are in one
    piece. `types` are the token types of the attended tokens.
    """

    name: str
    text: str
    tokens: int | None = None
    attended: int | None = None
    padding: str = ""
    mask: tuple[Span, ...] = ()
    types: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class RowValues:
    """One entry of a row that is numbers: `kind` is `image`, `audio`, `spectrogram`, `mask` (a class per pixel) or
    `numbers`.

    Minimum, maximum and mean are those of the finite numbers. `values` are the first of them, of a row with one axis.
    `seconds` is the length of audio with a known sampling rate. `picture` is a small PNG of an image in base64, its
    values spread from black to white.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    dtype: str
    minimum: float | None = None
    maximum: float | None = None
    mean: float | None = None
    non_finite: int = 0
    values: tuple[float, ...] = ()
    seconds: float | None = None
    picture: str = ""

    @property
    def peak(self) -> float | None:
        """The largest absolute value."""
        ends = [abs(end) for end in (self.minimum, self.maximum) if end is not None]
        return max(ends, default=None)


@dataclass(frozen=True, slots=True)
class RowAnswer:
    """The label of a row, or what the model predicts for it, as text; `name` is the name of a class.

    `model_name` is the model's name of the class, where the data set has another. `share` is the probability that a
    classifier gives to its prediction.
    """

    text: str
    name: str = ""
    model_name: str = ""
    share: float | None = None


@dataclass(frozen=True, slots=True)
class BatchRow:
    """One row of a batch; `batch` and `row` count from 0, `chosen` says why it is shown (`label 2`, `longest`).

    `scored` of its `scorable` tokens have a label that the loss counts, None for labels that are not one per token.
    `is_of_all`: it was looked for in the whole data set, and is in no probed batch.
    `scored_at` are the positions of these, with value 1. `prediction` is that of the model before any training step.
    """

    batch: int
    row: int
    chosen: str = ""
    texts: tuple[RowText, ...] = ()
    values: tuple[RowValues, ...] = ()
    label: RowAnswer | None = None
    prediction: RowAnswer | None = None
    scored: int | None = None
    scorable: int | None = None
    scored_at: tuple[Span, ...] = ()
    is_of_all: bool = False


@dataclass(frozen=True, slots=True)
class PredictedClass:
    """How many rows of the first batch the model gives to a class, and how many have it as their label.

    For one label per token these are tokens. `labels` is None for a batch without labels. Rows with NaN for scores have
    no class: they are counted last, under -1, without labels.
    """

    value: int
    name: str
    predicted: int
    labels: int | None = None


@dataclass(frozen=True, slots=True)
class BatchTable:
    """Some rows of the batches that a loader and its collator made of one data set, before any training step.

    `argument` is that of its `BatchEvidence`, `key` its name in a dictionary of data sets. `of` is the number of rows
    of the first batch. `tokenizer` is the class of what decoded the ids, "" if nothing did. Of the columns of the data
    set and the entries of the batch, `used` reach the model, `renamed` are columns under another name in the batch
    (as [column, entry]), `dropped` are columns that the batch has not, and `ignored` are entries of the batch that the
    model does not take. `is_asked`: somebody asked for these rows.
    """

    argument: str
    rows: tuple[BatchRow, ...]
    of: int
    key: str | None = None
    tokenizer: str = ""
    used: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    dropped: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    classes: tuple[PredictedClass, ...] = ()
    is_asked: bool = False
