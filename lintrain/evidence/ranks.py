"""What a probe measures of the processes of one training, rank by rank."""

from __future__ import annotations

from lintrain.model.location import Location
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class RankWrite:
    """A file that the script wrote in a training of several processes: the ranks that did, and where in its code."""

    path: str
    location: Location | None
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RankGather:
    """What one round of an evaluation gathered from all ranks at one location: the shortened round, with its last
    batch.

    `function` is the one of accelerate that gathered `gathered` rows; the loaders of all ranks had `fetched` rows
    together, of which `rows` are different ones: the others only fill up the last batches.
    """

    location: Location
    function: str
    gathered: int
    fetched: int
    rows: int


@dataclass(frozen=True, slots=True)
class RankSchedule:
    """A learning-rate schedule on several processes: its steps in one step of the optimizer, and where it ends.

    `length` is the number of its own steps after which it ends, None if it is not known.
    """

    name: str
    steps_per_update: int
    length: int | None


@dataclass(frozen=True, slots=True)
class RanksEvidence:
    """The first steps of a script that torch's own launcher started on two processes, rank by rank.

    `different_weights` of all `weights` are not the same before the first step, `different_gradients` of all
    `gradients` after its backward pass; `without_gradient` got none. `apart` are the trained weights that are not the
    same before the last step that was compared. `rows` are those that each rank trained on in `steps` steps,
    `shared_rows` of them were trained on by both, None where they are not known; `same_batches` of all steps were
    made of the same numbers on both. `batches` and `dataset_rows` are the lengths of each rank's loader and data set,
    None for a stream; `same_dataset` says whether rows from all over it are the same, None where they cannot be read
    twice alike. `is_joined` says whether the processes had formed a group when they stepped; `keeps_apart` names what
    the script uses that lets weights differ for a while or for good (sharding, averaging now and then), else empty.
    `failure` is the error that a rank ended with after its first step, else empty.
    """

    processes: int
    steps: int
    weights: int
    different_weights: tuple[str, ...]
    gradients: int
    different_gradients: tuple[str, ...]
    without_gradient: tuple[str, ...]
    rows: tuple[int, ...]
    shared_rows: int | None
    batches: tuple[int | None, ...]
    dataset_rows: tuple[int | None, ...]
    same_dataset: bool | None
    writes: tuple[RankWrite, ...] = ()
    gathers: tuple[RankGather, ...] = ()
    schedules: tuple[RankSchedule, ...] = ()
    apart: tuple[str, ...] = ()
    same_batches: int = 0
    is_joined: bool = False
    keeps_apart: str = ""
    failure: str = ""

    def writes_at(self, location: Location) -> tuple[RankWrite, ...]:
        """The files that were written at a location of the script."""
        return tuple(write for write in self.writes if write.location and _is_at(write.location, location))

    def gather_at(self, location: Location) -> RankGather | None:
        """What was gathered at a location of the script, or None if no round of it was followed to its end."""
        return next((gather for gather in self.gathers if _is_at(gather.location, location)), None)


def _is_at(seen: Location, claimed: Location) -> bool:
    return seen.path == claimed.path and claimed.line <= seen.line <= claimed.end_line
