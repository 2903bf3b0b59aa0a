"""What passes that only follow a script's first steps send, as the parent compares it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, cast

from lintrain.evidence.stages import Ending, EndingKind
from lintrain.model.location import Location
from lintrain.runtime.parent.events import Event, UntrustworthyError
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.validators import validator_of

if TYPE_CHECKING:
    from lintrain.runtime.timeline.facts import TimelineFacts


@dataclass(frozen=True, slots=True)
class TimelineStep:
    """One optimizer step: what was there before its first forward pass, and its result.

    Digests stand for the bytes of tensors, by name: `weights` (with buffers), `state` of the optimizer, `gradients`;
    the trainable weights `without_gradient` got none. `generators` are the states of random generators. `batch` is the
    digest of what the model was given, "" where none was seen; `rows` are the numbers of its rows in their data set,
    none where they are not known. `scalers` are the scale of each GradScaler and its steps since it last grew.
    """

    losses: tuple[float, ...]
    batch: str
    rows: tuple[int, ...]
    weights: dict[str, str]
    state: dict[str, str]
    gradients: dict[str, str]
    learning_rates: tuple[float, ...]
    generators: dict[str, str]
    without_gradient: tuple[str, ...] = ()
    scalers: tuple[tuple[float, int], ...] = ()

    @property
    def loss(self) -> float:
        """The mean of the losses of the step."""
        return sum(self.losses) / len(self.losses) if self.losses else float("nan")


@dataclass(frozen=True, slots=True)
class Gathered:
    """What one process gathered at a location of the script in one round over a loader.

    `calls` are the rows that each call gave, `batches` the numbers of the rows that the loader had in this process;
    `is_whole` where it has no more.
    """

    round: int
    is_whole: bool
    function: str
    location: Location
    calls: tuple[int, ...]
    batches: tuple[tuple[int, ...], ...]

    @property
    def rows(self) -> int:
        """The rows of one quantity: a call for each batch or one for all of them, perhaps of several quantities."""
        # With 6 calls for 3 batches two quantities were gathered (logits and labels), each with all the rows.
        times, rest = divmod(len(self.calls), len(self.batches) or 1)
        return sum(self.calls) // times if times and not rest else sum(self.calls)


@dataclass(slots=True)
class Timeline:
    """What one process sent: its steps in order, and single facts by name; `ending` is that of its pass.

    `collectives` are its calls by function and location in their order, `prints` where it prints in its steps, `waits`
    the one in which it waits just now.
    """

    steps: list[TimelineStep] = field(default_factory=list[TimelineStep])
    facts: TimelineFacts = field(default_factory=lambda: cast("TimelineFacts", {}))
    writes: list[tuple[str, Location | None]] = field(default_factory=list["tuple[str, Location | None]"])
    gathers: dict[tuple[int, Location], Gathered] = field(default_factory=dict["tuple[int, Location]", "Gathered"])
    collectives: dict[tuple[str, Location], int] = field(default_factory=dict["tuple[str, Location]", int])
    prints: list[Location] = field(default_factory=list[Location])
    waits: tuple[str, Location | None] | None = None
    ending: Ending = field(default_factory=lambda: Ending(EndingKind.EXITED))

    def add(self, event: Event) -> None:
        """Take in one event; raises UntrustworthyError."""
        try:
            self._add(event)
        except (ValueError, TypeError) as error:
            raise UntrustworthyError(f"a `{event['event']}` event is incomplete") from error

    def _add(self, event: Event) -> None:
        match event["event"]:
            case "timeline-step":
                self.steps.append(validator_of(TimelineStep).validate_python(event["step"]))
            case "timeline":
                self.facts.update(event["facts"])
            case "rank-write":
                location = event["location"]
                self.writes.append((event["path"], Location(**location) if location else None))
            case "rank-gather":
                gathered = validator_of(Gathered).validate_python(event["gather"])
                self.gathers[gathered.round, gathered.location] = gathered  # each event has the whole round so far
            case "rank-collective":
                self.collectives[str(event["function"]), Location(**event["location"])] = event["calls"]
            case "rank-print":
                self.prints.append(Location(**event["location"]))
            case "rank-wait":
                location = Location(**event["location"]) if event["location"] else None
                self.waits = (event["function"], location) if event["function"] else None
            case _:
                pass

    def demand(self, steps: int, start: str) -> None:
        """Raise UnmeasuredError if fewer steps came; `start` names the pass in words."""
        if len(self.steps) >= steps:
            return
        if "stopped" in self.facts:
            raise UnmeasuredError(str(self.facts["stopped"]))
        why = self.ending.reason.splitlines()[0] if self.ending.reason else f"it ended ({self.ending.kind})"
        raise UnmeasuredError(f"{start} took {len(self.steps)} of {steps} steps: {why}")


class UnmeasuredError(Exception):
    """A comparison that cannot be made; the text says why, as text after a colon."""


def differing(one: Mapping[str, str], other: Mapping[str, str]) -> tuple[str, ...]:
    """The names whose values differ, including those that the other one lacks."""
    return tuple(sorted(name for name, value in one.items() if other.get(name) != value))


def drawn_from(timeline: Timeline, generators: tuple[str, ...]) -> tuple[str, ...]:
    """Those of some random generators whose state moved in the steps: the others have no influence."""
    # A generator that no step draws from may differ between two starts without any effect.
    moved = differing(timeline.steps[0].generators, timeline.steps[-1].generators)
    return tuple(name for name in generators if name in moved)


def wait_in_vain(timelines: Sequence[Timeline]) -> bool:
    """Whether processes wait for one another forever: each waits or is done, and not all of them at one line."""
    waits = [timeline.waits for timeline in timelines if not timeline.facts.get("done")]
    if not waits or any(each is None for each in waits):
        return False
    # All at one line is a collective operation that is about to end. One that is done will never join the others.
    return len(waits) < len(timelines) or len(set(waits)) > 1
