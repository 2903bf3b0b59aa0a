"""The state of one reading: the record that is being made, the functions under evaluation, and the budgets."""

from __future__ import annotations

import ast
from collections.abc import Callable, Generator, Sized
from contextlib import contextmanager
from dataclasses import field
from enum import Enum
from typing import NoReturn, TypeVar

from lintrain.interpreter.core.latest_readings import LatestReadings
from lintrain.interpreter.core.project_state import ModuleBudgetSpentError, Modules
from lintrain.interpreter.core.scope import Changes, Scope
from lintrain.model.location import Location
from lintrain.pipeline.events import Act, Condition, Event, Loop
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.python import Class, Either, Function, Instance, Mapping, Sequence, Unknown, Value
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

Node = TypeVar("Node", bound=ast.AST)
Answer = TypeVar("Answer")
Shared = TypeVar("Shared", bound=Value)
Held = TypeVar("Held", bound=Sized)

STEP_BUDGET = 250_000
"""Nodes that may be evaluated for one file, called functions counted at each call: about one second."""

DEPTH_BUDGET = 14
"""How deep the script's own functions are followed into each other."""

PAUSE = 500
"""Steps between two checks whether a reading is cancelled: about two milliseconds."""

ITEMS_A_STEP = 8
"""Items that are copied or looked at in the time of a step."""

Narrowed = dict[int, tuple[Value, Value]]
"""What tests around the code leave of values, by their identity: the value itself, and what is left of it."""

NAMES_A_STEP = 64
"""Bindings of a branch that are undone in the time of a step."""


def _nothing() -> None:
    pass


class BudgetSpentError(Exception):
    """The file needs more steps than its budget: rules do not judge it."""


class Flow(Enum):
    """On to the next statement, out of the loop's iteration, or out of the function."""

    ON = 0
    LEAVE_LOOP = 1
    LEAVE_FUNCTION = 2


@dataclass(eq=False, slots=True)
class Frame:
    """One function under evaluation: what it returned so far, and the object and class it was called on."""

    function: Function | None
    scope: Scope
    returns: list[Value] = field(default_factory=lambda: [])
    receiver: Value | None = None
    owner: Class | None = None
    exits: list[Changes] = field(default_factory=lambda: [])
    """What the innermost loop had changed where `break` or `continue` left its body."""
    loop_start: int = 0
    """How many entries the journal of the scope had where that loop began."""
    source: Source | None = None
    """The file of its code, where that is not the script itself."""
    yields: list[Value] = field(default_factory=lambda: [])
    yields_once: bool = True
    """Whether what it yields is yielded one after the other: in no loop, and under no condition."""
    at_yield: Callable[[Value], None] | None = None
    """What happens where it yields: the body of the `with` that it manages."""
    depths: tuple[int, int] = (0, 0)
    is_suspended: bool = False
    call: ast.Call | None = None
    """The code that called it, in the file of the frame below."""

    @property
    def name(self) -> str:
        """The function's name; empty for the module."""
        return self.function.name if self.function else ""


@dataclass(eq=False, slots=True)
class Reader:
    """The state of one reading: the record that is being made, and what surrounds the code being read."""

    record: Pipeline
    source: Source = field(init=False)
    """The file of the code under evaluation: the script, or a module of its project. Asked for at every node."""
    frames: list[Frame] = field(default_factory=lambda: [])
    loops: list[Loop] = field(default_factory=lambda: [])
    conditions: list[Condition] = field(default_factory=lambda: [])
    guards: int = 0
    alternatives: int = 0
    """How many calls around this code are of one of several values, of which a run calls only one."""
    without_grad: int = 0
    grad_switches: list[str] = field(default_factory=list[str])
    """The code of the conditions on which autograd is on here: `phase == "train"`."""
    grad_modes: list[bool | None] = field(default_factory=list[bool | None])
    """What managers and decorators around the code set autograd to, the innermost last; None if that is not known."""
    uncalled: bool = False
    reading: int = 0
    """The number of the unused function that is being read, 0 for the script itself."""
    readings: int = 0
    unrolled: int = 0
    """Loops around the code that are read once for each of their items."""
    steps: int = 0
    limit: int = STEP_BUDGET
    """The count of steps at which reading stops, or comes back from the project's modules."""
    check_cancelled: Callable[[], None] = _nothing
    """Called regularly; what it raises ends the reading."""
    asked_at: int = 0
    """The count of steps at which it is called next."""
    modules: Modules = field(default_factory=lambda: Modules(None))
    defined: list[tuple[Function, Class | None]] = field(default_factory=lambda: [])
    branches: dict[ast.stmt, tuple[Condition, Condition]] = field(
        default_factory=dict[ast.stmt, "tuple[Condition, Condition]"]
    )
    """The conditions of the two sides of each `if` when it was last read."""
    narrowed: Narrowed = field(default_factory=dict[int, tuple[Value, Value]])
    left: dict[ast.stmt, tuple[Narrowed, Narrowed]] = field(default_factory=dict[ast.stmt, "tuple[Narrowed, Narrowed]"])
    """What the test of each `if` left of values on its two sides when it was last read."""
    settled: set[ast.stmt] = field(default_factory=set[ast.stmt])
    """The `if` statements that were certain to go one way when last read."""
    visited: set[ast.AST] = field(default_factory=set[ast.AST])
    instances: dict[ast.ClassDef, Instance] = field(default_factory=lambda: {})
    children: dict[tuple[int, str], Unknown] = field(default_factory=lambda: {})
    free: dict[tuple[int, str], Value] = field(default_factory=lambda: {})
    """What names stand for that nothing binds, by module (which its own names keep alive)."""
    splits: dict[tuple[int, str], Value] = field(default_factory=lambda: {})
    """The splits that code takes out of data of which it is not known whether it has some, by their names."""
    saved: dict[object, Value] = field(default_factory=lambda: {})
    """Data sets that `save_to_disk` wrote, by the folder: its name, or the value that stands for it.

    What a library keeps between its calls, by its dotted name: the flags of absl, the settings of a run of wandb.
    """
    with_parameters: set[int] = field(default_factory=set[int])
    """What is not understood, but was asked for its parameters: a model, by its identity."""
    kept: list[Value] = field(default_factory=lambda: [])
    """Values whose identity is a key of `children`, `splits`, `saved` or `with_parameters`: they must outlive it."""
    latest: LatestReadings | None = None
    """What is kept of the file from edit to edit; None for a file that is not being edited."""

    def __post_init__(self) -> None:
        self.source = self.record.source

    def enter(self, frame: Frame) -> None:
        """Begin to read the code of a function or module."""
        self.frames.append(frame)
        self.source = frame.source or self.record.source

    def leave(self, depth: int = -1) -> None:
        """End what was entered last, or all beyond a depth."""
        del self.frames[depth:]
        self.source = (self.frames[-1].source if self.frames else None) or self.record.source

    def shared(self, key: object, value: Shared) -> Shared:
        """A value of the file itself, the same object as before the last edit if it cannot change and did not."""
        is_of_file = self.latest is not None and len(self.frames) == 1 and not self.loops and not self.unrolled
        return self.latest.shared(key, value) if is_of_file and self.latest is not None else value

    def as_tested(self, value: Value) -> Value:
        """A value that code reads, as far as the tests around the code leave it."""
        known = self.narrowed.get(id(value))
        return value if known is None else known[1]

    def forget_tested(self, owner: Value, name: str) -> None:
        """Forget what tests left of a part of an unknown thing: the code stores another one under its name."""
        if self.narrowed and (part := self.children.get((id(owner), name))) is not None:
            self.narrowed.pop(id(part), None)

    @contextmanager
    def tested(self, values: Narrowed) -> Generator[None]:
        """Code that only runs where tests leave this of values."""
        before = self.narrowed
        self.narrowed = {**before, **values} if values else before
        try:
            yield
        finally:
            # What the code stored under another value counts for the code that follows, too.
            is_same = self.narrowed is before
            self.narrowed = before if is_same else {key: each for key, each in before.items() if key in self.narrowed}

    @property
    def frame(self) -> Frame:
        """The function under evaluation."""
        return self.frames[-1]

    def code(self, location: Location) -> str:
        """The code at a location, in any of the files."""
        return self.record.code(location)

    def once(self, question: Callable[[Node], Answer], node: Node) -> Answer:
        """The answer to a question about the syntax of a node, asked only once while its file's tree is kept."""
        return self.source.once(question, node)

    def spend(self, steps: int = 1) -> None:
        """Count steps; raises BudgetSpentError when there are no more."""
        # One counter for all budgets: it only grows, and budgets are values of it at which something stops.
        # So nested budgets (a module inside the script) cost one comparison per node.
        self.steps += steps
        if self.steps > self.limit:
            self.stop()
        if self.steps > self.asked_at:
            self.asked_at = self.steps + PAUSE
            self.check_cancelled()

    def counted(self, held: Held) -> Held:
        """A list or dictionary that is copied or looked through, its items counted as steps.

        One that is doubled line by line would fill the memory.
        """
        self.spend(len(held) // ITEMS_A_STEP)
        return held

    def undo(self, scope: Scope, start: int) -> Changes:
        """Undo what a branch did to the names since the journal of the scope had `start` entries, counted as steps."""
        # Without this, n branches one after the other that each bind n names would take n * n work for n
        # steps.
        self.spend((len(scope.journal) - start) // NAMES_A_STEP)
        return scope.undo(start)

    def stop(self) -> NoReturn:
        """End the reading, or that of the script's modules, where the steps are spent."""
        # Past the budget of the whole file everything ends; past that of its modules only the module in
        # hand is given up.
        raise BudgetSpentError if self.steps > STEP_BUDGET else ModuleBudgetSpentError

    def act(self, act: Act, location: Location, subject: Value, **details: Value) -> None:
        """Record an effect on a value."""
        self.record.events.append(
            Event(
                act,
                location,
                subject,
                tuple(self.loops),
                tuple(self.conditions),
                self.without_grad > 0,
                self.frame.name,
                self.uncalled,
                len(self.record.events),
                details,
                tuple(self.grad_switches),
                self.reading,
                self.grad_is_off,
            )
        )

    @property
    def grad_is_off(self) -> bool:
        """Whether autograd is certainly off here: `without_grad` also counts managers that may do anything."""
        return bool(self.grad_modes) and self.grad_modes[-1] is False

    @contextmanager
    def condition(self, location: Location, condition: Condition | None = None) -> Generator[None]:
        """Code that may be skipped, under a condition that is known or on something at a location."""
        self.conditions.append(condition or Condition(location, len(self.loops)))
        try:
            yield
        finally:
            self.conditions.pop()

    @contextmanager
    def aside(self) -> Generator[None]:
        """Code that a library calls when it chooses and any number of times, such as a collate function."""
        before = (self.loops, self.guards, self.without_grad, self.grad_switches, self.uncalled)
        modes, self.grad_modes = self.grad_modes, []
        self.loops, self.guards, self.without_grad, self.grad_switches, self.uncalled = [], 0, 0, [], True
        try:
            yield
        finally:
            self.loops, self.guards, self.without_grad, self.grad_switches, self.uncalled = before
            self.grad_modes = modes

    @contextmanager
    def guard(self) -> Generator[None]:
        """Code whose errors the script expects."""
        self.guards += 1
        try:
            yield
        finally:
            self.guards -= 1


DEEPEST = 8
"""Levels of lists and dictionaries in each other that are looked into."""

HOLDERS = (Sequence, Mapping, Either)


def weighed(reader: Reader, value: Value) -> Value:
    """A value for code of a library that may look through all of it: what it holds is counted as steps.

    Unknown if lists are nested too deeply: one that holds another twice, and that one again, has no end.
    """
    level = [value] if isinstance(value, HOLDERS) else []
    for _ in range(DEEPEST):
        if not level:
            return value
        inside: list[Value] = []
        for each in level:
            parts = _parts(each)
            reader.spend(len(parts) // ITEMS_A_STEP)
            inside.extend(parts)
        reader.spend(len(level) // ITEMS_A_STEP)
        level = [each for each in inside if isinstance(each, HOLDERS)]
    return Unknown() if level else value


def _parts(value: Value) -> list[Value] | tuple[Value, ...]:
    match value:
        case Sequence(items=items):
            return items
        case Mapping(entries=entries):
            return list(entries.values())
        case Either(options=options):
            return options
        case _:
            return ()
