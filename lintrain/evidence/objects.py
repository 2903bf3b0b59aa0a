"""What a probe measures of objects that a script creates besides its training, and of calls besides its steps."""

from __future__ import annotations

from lintrain.model.location import Location
from lintrain.startup.lazy_dataclass import dataclass


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
class ObjectEvidence:
    """All such objects, in the order in which they were created."""

    loaders: tuple[MadeLoader, ...] = ()
    chats: tuple[EncodedChat, ...] = ()
    learned: tuple[LearnedRows, ...] = ()
    splits: tuple[SplitRows, ...] = ()
    moved: tuple[MovedModel, ...] = ()
    stops: tuple[StepStop, ...] = ()

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
class StateLoad:
    """One call of `load_state_dict` on a module, before training: tensors of the module, and names that did not fit.

    `prefix` is what precedes, or is missing from, every name; "" if no prefix would make them fit.
    """

    location: Location
    tensors: int
    missing: int
    unexpected: int
    prefix: str = ""
