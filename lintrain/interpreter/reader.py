"""The reader: from a script's syntax tree to its Pipeline, by abstract interpretation, without running anything."""

from __future__ import annotations

import ast
import os.path
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sized
from contextlib import contextmanager
from dataclasses import field
from typing import TYPE_CHECKING, NoReturn, TypeVar

from lintrain.interpreter import invocation, operations, statements, weights
from lintrain.interpreter.project_modules import DEFINING_BUDGET, UNCALLED_BUDGET, ModuleBudgetSpentError, Modules
from lintrain.interpreter.scope import Changes, Scope
from lintrain.libraries import load_libraries
from lintrain.model.location import Location
from lintrain.pipeline.events import Act, Condition, Event, Loop
from lintrain.pipeline.record import Pipeline, Returned
from lintrain.pipeline.values.python import UNKNOWN, Class, Constant, Function, Instance, Unknown, Value
from lintrain.source.project import Project
from lintrain.source.source import Source
from lintrain.source.training_syntax import runs_itself
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from lintrain.knowledge.versions import TargetVersions

Node = TypeVar("Node", bound=ast.AST)
Answer = TypeVar("Answer")
Held = TypeVar("Held", bound=Sized)

STEP_BUDGET = 250_000
"""Nodes that may be evaluated for one file, called functions counted at each call: about one second."""

DEPTH_BUDGET = 14
"""How deep the script's own functions are followed into each other."""

PAUSE = 500
"""Steps after which a reading asks whether it is to go on: about two milliseconds."""

NAME = lazy_pattern(r"(?<![\w.])\w+")
METHOD = lazy_pattern(r"(?:self|cls)\.(\w+)")

BUILDS = lazy_pattern(r"_*(setup|build|init|prepare|create|make)")
"""Names of methods that make what other methods use."""


def _nothing() -> None:
    pass


class BudgetSpentError(Exception):
    """The file needs more steps than its budget: nothing will be said of it."""


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
    frames: list[Frame] = field(default_factory=lambda: [])
    loops: list[Loop] = field(default_factory=lambda: [])
    conditions: list[Condition] = field(default_factory=lambda: [])
    guards: int = 0
    without_grad: int = 0
    uncalled: bool = False
    steps: int = 0
    limit: int = STEP_BUDGET
    """The count of steps at which reading stops, or comes back from the project's modules."""
    go_on: Callable[[], None] = _nothing
    """Asked now and then; what it raises ends the reading."""
    asked_at: int = 0
    """The count of steps at which it is asked next."""
    modules: Modules = field(default_factory=lambda: Modules(None))
    defined: list[tuple[Function, Class | None]] = field(default_factory=lambda: [])
    settled: set[ast.stmt] = field(default_factory=set[ast.stmt])
    """The `if` statements that were certain to go one way when last read."""
    visited: set[ast.AST] = field(default_factory=set[ast.AST])
    instances: dict[ast.ClassDef, Instance] = field(default_factory=lambda: {})
    children: dict[tuple[int, str], Unknown] = field(default_factory=lambda: {})
    kept: list[Value] = field(default_factory=lambda: [])
    """Values whose identity is a key of `children`: they must outlive it."""

    @property
    def source(self) -> Source:
        """The file of the code under evaluation: the script, or a module of its project."""
        return self.frames[-1].source or self.record.source

    @property
    def frame(self) -> Frame:
        """The function under evaluation."""
        return self.frames[-1]

    def code(self, location: Location) -> str:
        """The code at a place, in whichever file it lies."""
        return self.record.code(location)

    def once(self, question: Callable[[Node], Answer], node: Node) -> Answer:
        """The answer to a question about the syntax of a node, asked only once while its file's tree is kept."""
        return self.source.once(question, node)

    def spend(self, steps: int = 1) -> None:
        """Count steps; raises BudgetSpentError when there are no more."""
        self.steps += steps
        if self.steps > self.limit:
            self.stop()
        if self.steps > self.asked_at:
            self.asked_at = self.steps + PAUSE
            self.go_on()

    def counted(self, held: Held) -> Held:
        """A list or dictionary that is copied or looked through, its items counted as steps.

        One that is doubled line by line would fill the memory.
        """
        self.spend(len(held) // weights.ITEMS_A_STEP)
        return held

    def undo(self, scope: Scope, start: int) -> Changes:
        """Undo what a branch did to the names since the journal of the scope had `start` entries, counted as steps."""
        self.spend((len(scope.journal) - start) // weights.NAMES_A_STEP)
        return scope.undo(start)

    def stop(self) -> NoReturn:
        """End the reading, or that of the script's modules, where the steps are spent."""
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
            )
        )

    def call(
        self, callee: Value, positional: list[Value], keywords: dict[str, Value] | None = None, *, location: Location
    ) -> Value:
        """What a value gives when it is called with these arguments by a library."""
        return invocation.apply(self, callee, positional, keywords or {}, location)

    def attribute(self, value: Value, name: str, location: Location) -> Value:
        """What `value.name` is."""
        return operations.attribute(self, value, name, location)

    def subscript(self, value: Value, key: Value, location: Location) -> Value:
        """What `value[key]` is."""
        return operations.subscript(self, value, key, location)

    def element(self, value: Value) -> Value:
        """What a loop over a value gets each time."""
        return operations.element(self, value)

    def read_module(self, source: Source, names: Scope) -> None:
        """Read the top level of a module of the script's project."""
        self.frames.append(Frame(None, names, source=source))
        statements.execute_block(self, source.tree.body, names)
        self.frames.pop()

    @contextmanager
    def condition(self, location: Location) -> Generator[None]:
        """Code that may be skipped."""
        self.conditions.append(Condition(location, len(self.loops)))
        try:
            yield
        finally:
            self.conditions.pop()

    @contextmanager
    def aside(self) -> Generator[None]:
        """Code that a library calls where and as often as it wants, such as a collate function."""
        before = (self.loops, self.guards, self.without_grad, self.uncalled)
        self.loops, self.guards, self.without_grad, self.uncalled = [], 0, 0, True
        try:
            yield
        finally:
            self.loops, self.guards, self.without_grad, self.uncalled = before

    @contextmanager
    def guard(self) -> Generator[None]:
        """Code whose errors the script expects."""
        self.guards += 1
        try:
            yield
        finally:
            self.guards -= 1


def read_pipeline(
    source: Source, targets: TargetVersions, project: Project | None = None, go_on: Callable[[], None] = _nothing
) -> Pipeline:
    """Read what a script builds and does, its project's modules too; raises SyntaxError where it does not parse.

    `go_on` is called every some hundred steps, and may raise to end the reading.
    """
    load_libraries()
    record = Pipeline(source, targets)
    reader = Reader(record, go_on=go_on, modules=Modules(project))
    module = Scope(names={"__name__": Constant("__main__"), "__file__": _file_name(source)})
    record.circles.add(module)
    reader.modules.add_script(source.path, module)
    if not runs_itself(source):
        reader.modules.leave(DEFINING_BUDGET)
    reader.frames.append(Frame(None, module))
    try:
        statements.execute_block(reader, source.tree.body, module)
        _read_uncalled(reader)
    except (BudgetSpentError, RecursionError):
        record.is_exhausted = True
    except BaseException:
        record.circles.end()
        raise
    return record


def _file_name(source: Source) -> Value:
    """`__file__`, which a notebook does not have."""
    return UNKNOWN if source.notebook or not source.path.endswith(".py") else Constant(os.path.abspath(source.path))  # noqa: PTH100


def _read_uncalled(reader: Reader) -> None:
    """Read the functions that the file defines and nobody in it calls, with parameters that are not known.

    Those that nothing in the file speaks of come first, and of them those that build what the others use: what they
    call is read where they call it.
    """
    reader.uncalled = True
    reader.modules.leave(UNCALLED_BUDGET)
    text = reader.record.source.text
    owners = {owner is not None for _, owner in reader.defined}
    methods = set(METHOD.findall(text)) if True in owners else set[str]()
    names = Counter(NAME.findall(text) if False in owners else ())
    first = [
        (function, owner)
        for function, owner in reader.defined
        if (function.name not in methods if owner else names[function.name] == 1)
    ]
    _read_all(reader, sorted(first, key=lambda each: BUILDS.match(each[0].name) is None))
    while reader.defined:
        waiting, reader.defined = reader.defined, []
        _read_all(reader, waiting)


def _read_all(reader: Reader, functions: Iterable[tuple[Function, Class | None]]) -> None:
    for function, owner in functions:
        if function.node not in reader.visited:
            value = invocation.read_alone(reader, function, owner)
            if owner is not None:
                reader.record.returned.append(Returned(owner, function, value))
