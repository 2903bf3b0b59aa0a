"""What reading unused functions gave, for the next reading of a file that is being edited.

A function that nothing calls is read alone, with unknown arguments. An edit elsewhere leaves its text, and mostly also
the values of the names that it takes from its file: then what its reading recorded is taken over.

Those names must stand for the very same objects, since values are compared by identity. An import, a literal or a
function never changes, so it stays one object over all readings while an edit leaves its statement (`shared`). Anything
else is another object in each reading, and a function that uses it is read again. So is one whose reading looked at
what others had recorded, accessed files, or changed more than its own values: the record and the names are watched.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeVar, cast

from lintrain.pipeline.record import Arithmetic
from lintrain.pipeline.values.python import Constant, Function, Library, LibraryObject, Value
from lintrain.source.latest_tree import kept_with
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from lintrain.knowledge.versions import TargetVersions

Shared = TypeVar("Shared", bound=Value)


@dataclass(frozen=True, slots=True)
class Start:
    """What counts where the reading of an unused function begins."""

    number: int
    """That of the reading, as events have it."""
    events: int
    """How many events were recorded before; some values hold the numbers of events."""
    surroundings: tuple[object, ...]
    """What the reader knows to be around the code, such as how the file left autograd."""


@dataclass(eq=False, slots=True)
class KeptReading:
    """What reading one unused function recorded, and what that depended on."""

    function: Function
    start: Start
    names: Mapping[str, Value | None]
    """The names that it took from its file, with their values; None for a name that the file does not bind."""
    asked: Mapping[object, object]
    """What it asked about the whole file, with the answers."""
    steps: int
    recorded: Mapping[str, list[Any]]  # Any: each list of the record holds another kind
    arithmetic: Mapping[int, Arithmetic]
    visited: frozenset[ast.AST]


@dataclass(eq=False, slots=True)
class LatestReadings:
    """The readings of the unused functions of one file, by their nodes, and the objects that stay the same."""

    readings: dict[ast.AST, KeptReading] = field(default_factory=dict[ast.AST, KeptReading])
    values: dict[object, Value] = field(default_factory=dict[object, Value])
    """What can never change, by the code that gives it."""
    given: set[object] = field(default_factory=set[object])
    """The code whose values this reading has used: a loop may evaluate an expression again."""
    targets: TargetVersions | None = None

    @classmethod
    def of(cls, source: Source, targets: TargetVersions) -> LatestReadings | None:
        """What is kept of the file; None for a file that is not being edited, or is not a plain script."""
        if type(source) is not Source or source.notebook is not None:
            return None
        kept = kept_with(source.path, source.tree, cls)
        if kept is None or source.is_repaired or source.is_partial:
            return None
        if kept.targets != targets:
            kept.readings.clear()
        kept.targets = targets
        kept.given.clear()
        return kept

    def shared(self, key: object, value: Shared) -> Shared:
        """A new value, or the object that stood for it in the reading before if nothing differs."""
        if key in self.given:
            return value
        self.given.add(key)
        known = self.values.pop(key, None)
        if known is None or not _is_same(known, value):
            if _is_same(value, value):
                self.values[key] = value
            return value
        if isinstance(known, Function) and isinstance(value, Function):
            known.scope = value.scope  # the names of this reading
        self.values[key] = known
        return cast("Shared", known)

    def lasting(self) -> frozenset[Value]:
        """The values of this reading that the next one gets again if nothing differs."""
        return frozenset(value for key, value in self.values.items() if key in self.given)

    def forget_others(self, used: set[ast.AST]) -> None:
        """Forget what this reading, which is over, did not use."""
        self.readings = {node: self.readings[node] for node in used if node in self.readings}
        self.values = {key: value for key, value in self.values.items() if key in self.given}


def _is_same(one: Value, other: Value) -> bool:
    """Whether two values are the same but for their identity, and can never change."""
    if one.__class__ is not other.__class__ or one.origin != other.origin:
        return False
    match one, other:
        case Library(), Library():
            return one.path == other.path
        case LibraryObject(), LibraryObject():
            given = other.arguments
            return (
                one.path == other.path and one.arguments.keys() == given.keys() and _are_identical(one.arguments, given)
            )
        case Constant(), Constant():
            return one.__class__ is Constant and _is_literal(one, other)
        case Function(), Function():
            is_plain = not (one.decorators or other.decorators or one.is_wrapped or other.is_wrapped)
            return (
                is_plain and one.node is other.node and one.source is other.source is None and _has_defaults(one, other)
            )
        case _:
            return False


def _are_identical(some: Mapping[str, Value], others: Mapping[str, Value]) -> bool:
    return all(value is others[name] for name, value in some.items())


def _is_literal(one: Constant, other: Constant) -> bool:
    is_plain = one.default is None and other.default is None
    return is_plain and one.value.__class__ is other.value.__class__ and repr(one.value) == repr(other.value)


def _has_defaults(one: Function, other: Function) -> bool:
    """Whether the defaults of a function are the same objects, or literals that it writes itself."""
    if one.defaults.keys() != other.defaults.keys() or one.origin is None:
        return False
    return all(
        value is other.defaults[name]
        or (value.origin is not None and one.origin.holds(value.origin) and _is_same(value, other.defaults[name]))
        for name, value in one.defaults.items()
    )
