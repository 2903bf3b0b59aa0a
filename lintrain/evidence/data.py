"""What a probe measures of the data sets of a run (columns, shared and conflicting rows, token ids next to
their labels), of other objects that a script creates, and of calls besides its steps.
"""

from __future__ import annotations

from lintrain.evidence.sweep import Sweep
from lintrain.model.location import Location
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ColumnEvidence:
    """One column of a split: its feature kind (`text`, `integer`, `class label`, `token ids`, …) and its range.

    `counts` holds how often each label value occurs, as [value, rows]; `names` the class names; `lengths` the
    shortest, median, 95th percentile and longest list of a list column (entries), `length_bins` how many rows have
    which lengths, as [first, last, rows]. `rows_read` is the number of rows on which these are based: all of them,
    except for data sets that give only one row at a time. `runs` of labels is how often a row that was read has another
    one than the row before it, plus one; None for other columns. `lowest_row` and `highest_row` are the numbers of the
    first rows that were read with the lowest and the highest label, if rows have numbers. `ones` are the rows with 1 in
    a column of floats that are all 0 or 1.
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
    runs: int | None = None
    lowest_row: int | None = None
    highest_row: int | None = None
    ones: int | None = None


@dataclass(frozen=True, slots=True)
class SplitEvidence:
    """One dataset as the run was given it: by which argument (`train_dataset`, `eval_dataset`), its columns and rows.

    `key` is its name in a dictionary of datasets; `kind` its class; `given_at` is the later call that it is for.
    `masked` counts the labels of -100 at attended tokens, in some of its rows. `sweep` is what reading all of its rows
    found; None if they cannot be read without changing the run.
    """

    argument: str
    rows: int | None
    columns: tuple[ColumnEvidence, ...]
    key: str | None = None
    label_column: str | None = None
    kind: str = ""
    given_at: Location | None = None
    masked: int = 0
    sweep: Sweep | None = None

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


FEWEST_COPIES = 32
OVERLAP, OFTEN = 0.2, 10
"""The share of evaluation rows that are training rows, and how much more often than two training rows are equal."""


@dataclass(frozen=True, slots=True)
class SharedRows:
    """How many of the compared evaluation rows are training rows, too.

    `repeated` is the share of the training rows that are equal to an earlier one, by nature: rows that a number of
    their own tells apart only come twice if they were copied, and count as none. None if that was not measured.
    """

    shared: int
    looked_at: int
    repeated: float | None = None

    @property
    def are_copies(self) -> bool:
        """Whether many more evaluation rows are training rows than training rows are equal to each other."""
        share = self.shared / max(1, self.looked_at)
        is_known = self.repeated is not None and self.shared >= FEWEST_COPIES
        return is_known and share >= OVERLAP and share >= OFTEN * (self.repeated or 0.0)


@dataclass(frozen=True, slots=True)
class LabelConflicts:
    """Rows of a dataset of `rows` rows, `compared` of them, that share all texts with a row of another label.

    `in_lower_case` are those that do so without their capital letters; a label may be one for each word.
    """

    rows: int
    compared: int
    conflicting: int
    inputs: tuple[str, ...]
    label: str
    in_lower_case: int = 0


@dataclass(frozen=True, slots=True)
class TokenizerEvidence:
    """The tokenizer of a run: its class, the number of its tokens, and its special ids (None where it has none).

    `checkpoint` is the name or folder that it was loaded from. `adds_bos` and `adds_eos` say whether it adds these to
    a text. `shared` is the share of the tokens of the model's own tokenizer that have the same id here, None if that
    tokenizer is not on this machine. `made_ids`: it is the only one that the script encoded texts with.
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
    made_ids: bool = False


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
    all rows hold as many tokens, as blocks do, or as rows do that were cut. `same_start` counts the tokens that all
    rows begin with, as those of a template do. `longest` is the length of the longest rows, `are_longest` how many
    there are, and `longest_with_eos` how many of these end with EOS.
    """

    rows: int
    starts_with_bos: int
    starts_with_two_bos: int
    ends_with_eos: int
    most_frequent_last: int
    highest_id: int
    equal_lengths: bool = False
    same_start: int = 0
    longest: int = 0
    are_longest: int = 0
    longest_with_eos: int = 0


@dataclass(frozen=True, slots=True)
class ScoredTokens:
    """Counts over the probed batches; None if labels and tokens do not correspond by position.

    `scored` labels are not -100; `padding` of them are on padding. `equal_to_inputs` are those that repeat the input
    of the same position, `equal_to_next` those that repeat the next input (of `with_next` that have one),
    `equal_to_previous` those that repeat the previous one, and `equal_to_decoder` those that the decoder receives at
    the same position.
    """

    scored: int
    padding: int | None = None
    equal_to_inputs: int | None = None
    equal_to_next: int | None = None
    with_next: int = 0
    equal_to_decoder: int | None = None
    equal_to_previous: int | None = None

    def plus(self, other: ScoredTokens) -> ScoredTokens:
        """The counts of two batches together."""
        return ScoredTokens(
            self.scored + other.scored,
            _sum(self.padding, other.padding),
            _sum(self.equal_to_inputs, other.equal_to_inputs),
            _sum(self.equal_to_next, other.equal_to_next),
            self.with_next + other.with_next,
            _sum(self.equal_to_decoder, other.equal_to_decoder),
            _sum(self.equal_to_previous, other.equal_to_previous),
        )


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


@dataclass(frozen=True, slots=True)
class CopiedRows:
    """What two worker processes read from their copies of a data set, at the same time and in the same order.

    For a stream these are its first rows; otherwise the states of the random generators that it keeps, after each of
    some rows. `different` counts the different ones of the first worker, `alike` those that the second has at the same
    position, `shared` those that it has at any position. For a stream, `alone` counts the first worker's rows that a
    single worker gives at the same position. `is_steady`: a single worker gives the same rows twice.
    """

    is_stream: bool
    read: int
    different: int
    alike: int
    shared: int
    alone: int = 0
    is_steady: bool = True


@dataclass(frozen=True, slots=True)
class MadeLoader:
    """A `DataLoader` of the script: its rows and batches (None for a stream without a length), and its workers.

    `generators` counts, in a data set of the script's own class, the attributes that draw random numbers. `copies`
    were read if two or more workers may read the same rows from their copies of it; `reason` says why not.
    """

    location: Location
    rows: int | None
    batches: int | None
    batch_size: int | None
    drops_last: bool
    sampler: str
    workers: int
    generators: int | None = None
    copies: CopiedRows | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class EncodedChat:
    """The result of one call of `apply_chat_template`: its type, and its columns if it has any."""

    location: Location
    type: str
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LearnedRows:
    """A `fit` of scikit-learn: of which class, from how many rows; `moment` orders it among the splits."""

    location: Location
    learner: str
    rows: int
    moment: int


@dataclass(frozen=True, slots=True)
class SplitRows:
    """A `train_test_split`: how many rows it was given, and how many it kept for training."""

    location: Location
    rows: int
    kept: int
    moment: int


@dataclass(frozen=True, slots=True)
class MovedModel:
    """A module that the script moved to a device: where, and the bytes of its weights and buffers.

    `beside` are the bytes of modules that an earlier pass over the same location had moved and that were still held;
    None if the probe itself may have held them. `calls` counts its calls while training was followed for `steps`
    steps; `is_held` says whether anything held it at the last of them, `trains` whether an optimizer that stepped has
    any of its weights.
    """

    location: Location
    name: str
    size: int
    beside: int | None
    calls: int
    steps: int
    is_held: bool
    trains: bool


@dataclass(frozen=True, slots=True)
class StepStop:
    """How often a call that makes a step wait (`torch.cuda.empty_cache`, `gc.collect`) was made in so many steps."""

    location: Location
    name: str
    times: int
    steps: int


@dataclass(frozen=True, slots=True)
class DroppedResult:
    """A call of a data set's method whose result, another data set, the script does not keep.

    `columns` are those that it is called on, `added` those of the result that are not among them. `is_cached`: the call
    may be made for the file that it leaves in the cache.
    """

    location: Location
    method: str
    added: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    is_cached: bool = False


@dataclass(frozen=True, slots=True)
class ObjectEvidence:
    """All such objects, in the order in which they were created."""

    loaders: tuple[MadeLoader, ...] = ()
    chats: tuple[EncodedChat, ...] = ()
    learned: tuple[LearnedRows, ...] = ()
    splits: tuple[SplitRows, ...] = ()
    moved: tuple[MovedModel, ...] = ()
    stops: tuple[StepStop, ...] = ()
    dropped: tuple[DroppedResult, ...] = ()

    def loaders_at(self, location: Location) -> tuple[MadeLoader, ...]:
        """Those that were created at a location."""
        return tuple(each for each in self.loaders if each.location.meets(location))

    def chats_at(self, location: Location) -> tuple[EncodedChat, ...]:
        """Those that were encoded at a location."""
        return tuple(each for each in self.chats if each.location.meets(location))

    def moved_at(self, location: Location) -> tuple[MovedModel, ...]:
        """Those that were moved at a location."""
        return tuple(each for each in self.moved if each.location.meets(location))


@dataclass(frozen=True, slots=True)
class LeftWeights:
    """What became of the weights that a file did not have, when the first gradients of training were there.

    `unchanged` have the values that they had before the load. Of these, `trained` have a gradient, `frozen` get none
    and their layer was called. `renamed`: the file has unread weights of the same shapes. `are_last`: all of them are
    defined after those that were loaded. `names` are some of them, the frozen ones first.
    """

    unchanged: int
    trained: int
    frozen: int
    renamed: bool
    are_last: bool
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StateLoad:
    """One call of `load_state_dict` on a module, before training: tensors of the module, and names that did not fit.

    `prefix` is what precedes, or is missing from, every name; "" if no prefix would make them fit. `zeros` are weights
    of two dimensions or more that become all 0 and were not before, `non_finite` those with NaN or infinity. A model
    that a library loads counts as a call, without missing names. `left` is None before the first gradients.
    """

    location: Location
    tensors: int
    missing: int
    unexpected: int
    prefix: str = ""
    zeros: tuple[str, ...] = ()
    non_finite: tuple[str, ...] = ()
    left: LeftWeights | None = None
