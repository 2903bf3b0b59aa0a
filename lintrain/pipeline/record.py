"""What a script builds and does, as far as its text shows: what the rules look at."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, fields
from functools import cache
from typing import TYPE_CHECKING, TypeVar, cast

from lintrain.model.location import Location
from lintrain.pipeline.events import Act, Event, Loop
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.closure import Circles
from lintrain.pipeline.values.data import Collator, Dataset, DatasetDict, Encoding, OwnRows, Tokenizer
from lintrain.pipeline.values.loading import Loader, TorchDataset
from lintrain.pipeline.values.model import Launcher, Model, Optimizer, Scheduler
from lintrain.pipeline.values.python import Class, Constant, Either, Function, Instance, Value
from lintrain.pipeline.values.tensors import Shape, SpecialToken, Text
from lintrain.pipeline.values.training import (
    KerasRun,
    LightningFit,
    LoggedNames,
    LossCall,
    Metric,
    MetricCall,
    ModelCall,
    TrainerRun,
    TrainingArguments,
)
from lintrain.startup.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from lintrain.knowledge.tables import CheckpointFacts
    from lintrain.knowledge.versions import TargetVersions
    from lintrain.pipeline.values.certainty import Default
    from lintrain.source.source import Source

Answer = TypeVar("Answer")
Subject = TypeVar("Subject")


@dataclass(slots=True, unsafe_hash=True)
class LibraryCall:
    """One call of a library by its dotted path; `is_guarded` inside a `try` or a test of versions.

    `text` is the code of what is called (`TrainingArguments`); `is_certain` if reading went through it without a
    condition, so that a run of the script makes the call. Never changed; not frozen for the same reason as Location.
    """

    path: str
    location: Location
    arguments: dict[str, Argument]
    positional: int
    is_guarded: bool
    is_open: bool
    text: str = ""
    is_certain: bool = True


@dataclass(frozen=True, slots=True)
class LibraryName:
    """One use of a library's name: in a `from module import name` (`is_import`) or as `module.name`."""

    module: str
    name: str
    location: Location
    is_guarded: bool
    is_import: bool
    bound_as: str = ""


@dataclass(frozen=True, slots=True)
class MissingName:
    """A name that an import takes from a module of the project which has none of it; `near` is the likely one."""

    module: str
    name: str
    location: Location
    near: str


@dataclass(frozen=True, slots=True)
class Discard:
    """A statement that throws away what a method of a data set or tensor gave.

    `is_displayed` as the last line of a cell.
    """

    location: Location
    receiver: Value
    receiver_text: str
    method: str
    result: Value
    is_displayed: bool


TRUE_FOR_ANY_TEXT = "option of type bool"
NEVER_CHANGED = "switch to its own default"
"""Uses of options: `bool("False")` is True, and a switch that stores what it has by default changes nothing."""


@dataclass(frozen=True, slots=True)
class Misuse:
    """A value used as something that it is not: `use` names how (`subscript`, `map`, `train_dataset`, `compute`, …)."""

    location: Location
    value: Value
    use: str
    text: str


@dataclass(frozen=True, slots=True)
class ShapeMisfit:
    """An axis of a tensor that has another size than what gets it was built for.

    `what` names it (`Linear`, `view`), `shape` is that of the tensor as text, `made` where the tensor was computed,
    `layer` where the layer was made, if that is another line than the one of the call.
    """

    location: Location
    what: str
    expected: int
    size: int
    shape: str
    made: Location | None = None
    layer: Location | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """`prediction - target`, `label * distance` or `classes == labels` (`Eq`, also for `!=`): shapes as in the code."""

    location: Location
    left: Shape
    right: Shape
    text: str
    operator: str = "Sub"


@dataclass(frozen=True, slots=True)
class TokenTest:
    """A comparison with a special token: `labels == tokenizer.pad_token_id`."""

    token: SpecialToken
    location: Location


@dataclass(frozen=True, slots=True)
class KeptModules:
    """A plain list or dictionary of modules that an object of a script's module class keeps as an attribute."""

    owner: Instance
    name: str
    value: Value
    location: Location


@dataclass(slots=True, unsafe_hash=True)
class Binding:
    """A name that was given a value. Never changed; not frozen for the same reason as Location."""

    name: str
    value: Value
    location: Location


@dataclass(frozen=True, slots=True)
class Returned:
    """What a method returns that only a library calls, as Lightning does with `configure_optimizers`."""

    cls: Class
    method: Function
    value: Value


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """How a value was computed: the operator as `ast` names it (`Div`), both operands with their code, and where."""

    result: Value
    operator: str
    left: Value
    right: Value
    left_text: str
    right_text: str
    location: Location


MOST_STEPS = 20_000_000
"""Things that all rules together look at in one script; scripts that people write take less than a hundredth."""


class StepsSpentError(BaseException):
    """The rules have looked at too much of a script; no Exception, so that no rule takes it for a fault."""


@dataclass(eq=False, slots=True)
class Pipeline:
    """Everything that one script builds and does, in the order in which it is read.

    `is_exhausted` when the reading budget ran out; then nothing here may be relied on.
    """

    source: Source
    targets: TargetVersions
    runs: list[TrainerRun] = field(default_factory=list[TrainerRun])
    keras_runs: list[KerasRun] = field(default_factory=list[KerasRun])
    lightning_fits: list[LightningFit] = field(default_factory=list[LightningFit])
    lightning_logs: list[LoggedNames] = field(default_factory=list[LoggedNames])
    datasets: list[Dataset | DatasetDict] = field(default_factory=list[Dataset | DatasetDict])
    own_rows: list[OwnRows] = field(default_factory=list[OwnRows])
    loaders: list[Loader] = field(default_factory=list[Loader])
    tokenizers: list[Tokenizer] = field(default_factory=list[Tokenizer])
    encodings: list[Encoding] = field(default_factory=list[Encoding])
    collators: list[Collator] = field(default_factory=list[Collator])
    models: list[Model] = field(default_factory=list[Model])
    optimizers: list[Optimizer] = field(default_factory=list[Optimizer])
    launchers: list[Launcher] = field(default_factory=list[Launcher])
    schedulers: list[Scheduler] = field(default_factory=list[Scheduler])
    arguments: list[TrainingArguments] = field(default_factory=list[TrainingArguments])
    metrics: list[Metric] = field(default_factory=list[Metric])
    metric_calls: list[MetricCall] = field(default_factory=list[MetricCall])
    losses: list[LossCall] = field(default_factory=list[LossCall])
    model_calls: list[ModelCall] = field(default_factory=list[ModelCall])
    calls: list[LibraryCall] = field(default_factory=list[LibraryCall])
    names: list[LibraryName] = field(default_factory=list[LibraryName])
    missing_names: list[MissingName] = field(default_factory=list[MissingName])
    named_in_settings: list[str] = field(default_factory=list[str])
    """The dotted names of what settings build: `torch.optim.Adam` in a `_target_`."""
    kept_modules: list[KeptModules] = field(default_factory=list[KeptModules])
    discards: list[Discard] = field(default_factory=list[Discard])
    lost_tensors: list[Discard] = field(default_factory=list[Discard])
    misuses: list[Misuse] = field(default_factory=list[Misuse])
    differences: list[Difference] = field(default_factory=list[Difference])
    misfits: list[ShapeMisfit] = field(default_factory=list[ShapeMisfit])
    bindings: list[Binding] = field(default_factory=list[Binding])
    returned: list[Returned] = field(default_factory=list[Returned])
    arithmetic: dict[int, Arithmetic] = field(default_factory=dict[int, Arithmetic])
    """By the identity of the result."""
    texts: list[Text] = field(default_factory=list[Text])
    token_tests: list[TokenTest] = field(default_factory=list[TokenTest])
    loops: list[Loop] = field(default_factory=list[Loop])
    events: list[Event] = field(default_factory=list[Event])
    is_exhausted: bool = False
    steps: int = 0
    """What the rules have looked at."""
    circles: Circles = field(default_factory=Circles, repr=False)
    """To be ended after the last query of a rule."""
    sources: dict[str, Source] = field(default_factory=dict[str, "Source"])
    """The script and those of the project's modules that were read for it, by their paths."""
    checkpoints: dict[str, CheckpointFacts | None] = field(default_factory=dict[str, "CheckpointFacts | None"])
    """What was found out about checkpoints, by their names."""
    downloads: list[tuple[Value, Value]] = field(default_factory=list[tuple[Value, Value]])
    """Folders that the script downloads a checkpoint to, each with the name of the checkpoint."""
    chosen: dict[Default, None] = field(default_factory=dict["Default", None])
    """The options that choose code by their defaults: a module to import, an attribute, an entry of a dictionary."""
    read_without: Callable[[Default], Pipeline | None] | None = field(default=None, repr=False)
    """Reads the script once more while an option is unknown; None for a script that took long."""
    _by_act: dict[tuple[Act, ...], list[Event]] = field(default_factory=lambda: {}, repr=False)
    _by_loop: dict[int, list[Event]] = field(default_factory=dict[int, "list[Event]"], repr=False)
    _answers: dict[tuple[object, ...], object] = field(default_factory=dict["tuple[object, ...]", object], repr=False)
    _sorted: tuple[int, Event | None] = field(default=(0, None), repr=False)
    _bound: dict[int, list[Binding]] = field(default_factory=dict[int, "list[Binding]"], repr=False)
    _bound_state: tuple[int, Binding | None] = field(default=(0, None), repr=False)

    def __post_init__(self) -> None:
        self.sources[self.source.path] = self.source

    def source_of(self, location: Location) -> Source:
        """The file of a location: the script, or a module that was read for it."""
        return self.sources.get(location.path, self.source)

    def note_choice(self, chooses: Value) -> None:
        """Note the option whose default decides what the script builds, if the value rests on one."""
        if isinstance(chooses, Constant) and chooses.default is not None and chooses.default.option:
            self.chosen[chooses.default] = None

    @contextmanager
    def apart(self) -> Generator[None]:
        """Answers that are cached inside are forgotten after it: they were given while a value counted as unknown."""
        answers, self._answers = self._answers, {}
        try:
            yield
        finally:
            self._answers = answers

    def rows_of(self, value: Value) -> Dataset | None:
        """The rows of a data set: of a library, of the script's own class, or a list; None if they are not known."""
        if isinstance(value, Dataset):
            return None if value.is_withheld else value
        # A `Subset` and the parts of `random_split` have the rows of the data set that they were taken from.
        if isinstance(value, TorchDataset) and value.name in {"Subset", "random_split"} and value.parts:
            return self.rows_of(value.parts[0])
        return next((own.rows for own in self.own_rows if own.owner is value), None)

    def code(self, location: Location) -> str:
        """The code at a location."""
        return self.source_of(location).code(location)

    def lengths(self) -> dict[str, int]:
        """How much of each kind is recorded."""
        return {name: len(getattr(self, name)) for name in _record_names()}

    def cut(self, lengths: Mapping[str, int]) -> None:
        """Forget what was recorded since."""
        for name, length in lengths.items():
            del getattr(self, name)[length:]

    def spend(self, steps: int) -> None:
        """Count what a rule looks at; raises StepsSpentError when all rules together have looked at too much."""
        self.steps += steps
        if self.steps > MOST_STEPS:
            raise StepsSpentError

    def acts(self, *acts: Act) -> Sequence[Event]:
        """The events of these kinds, in order."""
        self._sort()
        if acts not in self._by_act:
            self._by_act[acts] = [event for event in self.events if event.act in acts]
        self.spend(len(self._by_act[acts]))
        return self._by_act[acts]

    def events_in(self, loop: Loop) -> Sequence[Event]:
        """What happens inside a loop, in order; every event is sorted into its loops once."""
        self._sort()
        if not self._by_loop:
            for event in self.events:
                for around in {id(around) for around in event.loops}:
                    self._by_loop.setdefault(around, []).append(event)
        found = self._by_loop.get(id(loop), ())
        self.spend(len(found))
        return found

    def cached(self, question: Callable[[Pipeline, Subject], Answer], subject: Subject) -> Answer:
        """The answer to a question about a loop or value, known by its identity, asked once while no event is added."""
        self._sort()
        key = (question, id(subject))
        if key not in self._answers:
            self._answers[key] = (None if subject is self else subject), question(self, subject)  # no circle
        return cast("tuple[Subject | None, Answer]", self._answers[key])[1]

    def _sort(self) -> None:
        """Forget how the events were sorted, where there are others now."""
        state = (len(self.events), self.events[-1] if self.events else None)
        if self._sorted[0] != state[0] or self._sorted[1] is not state[1]:
            self._by_loop.clear()
            self._by_act.clear()
            self._answers.clear()
            self._sorted = state

    def computed_from(self, value: Value) -> Iterator[Value]:
        """A value, and the values that arithmetic made it of."""
        pending = [value]
        while pending:
            part = pending.pop()
            self.spend(1)
            yield part
            made = self.arithmetic.get(id(part))
            pending.extend([made.left, made.right] if made else [])
            pending.extend(part.options if isinstance(part, Either) else ())

    def names_of(self, value: Value) -> list[Binding]:
        """The names that a value was given, in order."""
        self._sort_bindings()
        found = self._bound.get(id(value), ())
        self.spend(len(found))
        return list(found)

    def _sort_bindings(self) -> None:
        count, last = self._bound_state
        if count and (len(self.bindings) < count or self.bindings[count - 1] is not last):
            self._bound, count = {}, 0
        for binding in self.bindings[count:]:
            self._bound.setdefault(id(binding.value), []).append(binding)
        self._bound_state = len(self.bindings), self.bindings[-1] if self.bindings else None


@cache
def _record_names() -> tuple[str, ...]:
    """The names of the lists that a reading fills."""
    return tuple(each.name for each in fields(Pipeline) if str(each.type).startswith("list["))
