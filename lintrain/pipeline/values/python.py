"""Values of the language itself, as far as the reader understands them."""

from __future__ import annotations

import ast
from collections import abc
from collections.abc import Iterable
from dataclasses import field
from math import isfinite
from typing import TYPE_CHECKING, Any, cast

from lintrain.model.location import Location
from lintrain.pipeline.values.certainty import Default, is_uncertain, note_read
from lintrain.pipeline.values.closure import MOST_CLASSES, Closure, ancestry_of
from lintrain.startup.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from lintrain.source.source import Source


MOST_OPTIONS = 4
"""A value that may be more than this many things is Unknown: no rule can judge it."""

Literal = str | int | float | bool | bytes | complex | None


@dataclass(eq=False, slots=True, kw_only=True)
class Value:
    """Something that a name may be bound to; two values are the same only when they are one object.

    `origin` is the place where it was made, None for what the language or a library made.
    """

    origin: Location | None = None

    def merged(self, others: abc.Sequence[Value]) -> Value | None:  # noqa: ARG002 - what most values are asked in vain
        """One value for this and others that are too many to keep apart; None where nothing is common to them."""
        return None


@dataclass(eq=False, slots=True)
class Unknown(Value):
    """Not understood. `name` is that of the parameter it came in by, so that one unknown thing can be followed."""

    name: str = ""


@dataclass(eq=False, slots=True)
class OneOf(Unknown):
    """One of many literals of one type, it is not known which: what a list holds at an unknown index."""

    literals: tuple[Literal, ...] = ()


@dataclass(eq=False, slots=True)
class Unstored(Unknown):
    """What a container holds that nothing was put into yet: code that takes it has put something in before."""


@dataclass(eq=False, slots=True)
class Absent(Value):
    """Known not to be there: an argument that was not given."""


UNKNOWN = Unknown()
ABSENT = Absent()


@dataclass(eq=False, slots=True)
class Constant(Value):
    """A literal value; `default` if something outside of the script may set another one."""

    value: Literal
    default: Default | None = None

    @property
    def may_differ(self) -> bool:
        """Whether another value is as likely: a default that is not an option's."""
        return is_uncertain(self.default)


_HELD: Any = vars(Constant)["value"]
"""The slot of a constant's value, below the property of `OptionValue`."""


class _Unread:
    """In place of a value that counts as unknown; equals nothing."""


class OptionValue(Constant):
    """What an option is by default; the reading of its value is recorded (`lintrain.pipeline.values.certainty`)."""

    __slots__ = ()

    @property
    def value(self) -> Literal:
        """The default, unless a rule is asked what it would say without it."""
        held = _HELD.__get__(self)
        reading = note_read(self.default) if self.default is not None else None
        if reading is None or reading.changed != self.default:
            return cast("Literal", held)
        if (
            reading.is_passed
            and isinstance(held, bool)
            and reading.changed is not None
            and self.origin == reading.changed.location
        ):
            return not held
        return cast("Literal", _Unread())

    @value.setter
    def value(self, given: Literal) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        _HELD.__set__(self, given)


def constant(value: Literal, default: Default | None = None, origin: Location | None = None) -> Constant:
    """A literal value; `default` if something outside of the script may set another one."""
    made = OptionValue if default is not None and default.option else Constant
    return made(value, default, origin=origin)


def first_default(*values: Value) -> Default | None:
    """The default that one of some values rests on."""
    return next((value.default for value in values if isinstance(value, Constant) and value.default), None)


@dataclass(eq=False, slots=True)
class Sequence(Value):
    """A list, tuple or set; `is_complete` if no other items can be in it.

    `is_closed` if each item is one of `items`, but it is not known how many there are: a list that a loop fills.
    The first `placed` items are where they are, though others may follow: `(loss,) + outputs`.
    """

    items: list[Value]
    kind: str = "list"
    is_complete: bool = True
    is_closed: bool = False
    placed: int = 0

    @property
    def knows_items(self) -> bool:
        """Whether each item is certainly one of `items`."""
        return self.is_complete or self.is_closed


@dataclass(eq=False, slots=True)
class Range(Sequence):
    """A `range`: its bounds as the call has them."""

    start: Value = ABSENT
    stop: Value = UNKNOWN
    step: Value = ABSENT


@dataclass(eq=False, slots=True)
class Mapping(Value):
    """A dictionary by its literal keys; `is_complete` if no other keys can be in it.

    `written` are the locations of the keys, as long as nothing in the script but a call that expands it names it.
    `others` is any of what is under keys that are not known, where that is known.
    """

    entries: dict[Literal, Value]
    is_complete: bool = True
    written: dict[Literal, Location] = field(default_factory=lambda: {})
    others: Value | None = None

    def merged(self, others: abc.Sequence[Value]) -> Value | None:
        """Dictionaries with the same keys: each entry is any of theirs."""
        rows = [each for each in (self, *others) if isinstance(each, Mapping) and each.is_complete]
        if len(rows) <= len(others) or any(each.entries.keys() != self.entries.keys() for each in rows):
            return None
        return Mapping({key: join(row.entries[key] for row in rows) for key in self.entries})


@dataclass(eq=False, slots=True)
class Function(Value):
    """A function or lambda of the script, with the scope that it closes over and the values of its defaults.

    `source` is its file, if that is not the script itself; `is_wrapped` if a decorator that is
    not understood may give something else than it does.
    """

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    scope: Closure
    defaults: dict[str, Value] = field(default_factory=lambda: {})
    decorators: tuple[Value, ...] = ()
    source: Source | None = None
    is_wrapped: bool = False

    @property
    def name(self) -> str:
        """The function's name; `<lambda>` where it has none."""
        return "<lambda>" if isinstance(self.node, ast.Lambda) else self.node.name


@dataclass(eq=False, slots=True)
class Slice(Value):
    """`lower:upper:step` inside a subscript."""

    lower: Value = ABSENT
    upper: Value = ABSENT
    step: Value = ABSENT


@dataclass(eq=False, slots=True)
class Bound(Value):
    """A method, looked up on the value that it will be called on; `function` is None for a library's method `name`.

    `owner` is the script's class that the function was found in.
    """

    receiver: Value
    name: str
    function: Function | None = None
    owner: Class | None = None


@dataclass(eq=False, slots=True)
class Super(Value):
    """`super()`: the object, seen from above the class `below`."""

    receiver: Value
    below: Class


@dataclass(eq=False, slots=True)
class Partial(Value):
    """A callable with some of its arguments given already (`functools.partial`)."""

    function: Value
    positional: list[Value]
    keywords: dict[str, Value]


@dataclass(eq=False, slots=True)
class Class(Value):
    """A class of the script: its own attributes and its bases, `library_bases` by their dotted names."""

    node: ast.ClassDef
    bases: list[Value]
    attributes: dict[str, Value]
    decorators: tuple[Value, ...] = ()

    _ancestors: tuple[Class, ...] | None = None
    _library_bases: tuple[str, ...] | None = None

    def lookup(self, name: str) -> tuple[Class, Value] | None:
        """An attribute of the class or of the script's classes it derives from, with the class that has it."""
        for owner in self.lineage():
            if name in owner.attributes:
                return owner, owner.attributes[name]
        return None

    def lineage(self) -> tuple[Class, ...]:
        """The class and the script's own classes that it derives from, nearest first; at most MOST_CLASSES."""
        if self._ancestors is None:  # without itself: a class that held itself would wait for the collector
            self._ancestors = ancestry_of(self, _own_bases)[1:]
        return (self, *self._ancestors)

    @property
    def library_bases(self) -> tuple[str, ...]:
        """The dotted names of the library classes that it derives from, each once."""
        if self._library_bases is None:
            bases = (base for owner in self.lineage() for base in owner.bases)
            self._library_bases = tuple(dict.fromkeys(base.path for base in bases if isinstance(base, Library)))
        return self._library_bases

    @property
    def has_unknown_base(self) -> bool:
        """Whether it derives from something that was not understood, or from more classes than are looked at."""
        return len(self.lineage()) == MOST_CLASSES or any(
            not isinstance(base, Class | Library) for owner in self.lineage() for base in owner.bases
        )


def _own_bases(cls: Class) -> list[Class]:
    return [base for base in cls.bases if isinstance(base, Class)]


@dataclass(eq=False, slots=True)
class Instance(Value):
    """An object of a class of the script; its attributes as far as they were set."""

    cls: Class
    attributes: dict[str, Value] = field(default_factory=lambda: {})


@dataclass(eq=False, slots=True)
class Library(Value):
    """A module of a library, or a name in one, by its dotted path: `transformers.Trainer`."""

    path: str

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition(".")[2]


@dataclass(eq=False, slots=True)
class LibraryObject(Value):
    """What calling a library gave, where only its kind is known: the path that was called and the arguments by name.

    Positional arguments have their numbers as names ("0", "1").
    """

    path: str
    arguments: dict[str, Value] = field(default_factory=lambda: {})


@dataclass(eq=False, slots=True)
class Either(Value):
    """One of several values: what the branches of an `if` assigned."""

    options: tuple[Value, ...]


def join(values: Iterable[Value]) -> Value:
    """One value for any of these; Unknown as soon as one of them is."""
    options: list[Value] = []
    unstored: Value = UNKNOWN
    for value in values:
        for option in value.options if isinstance(value, Either) else (value,):
            if isinstance(option, Unstored):
                unstored = option
                continue
            if isinstance(option, Unknown):
                return option if not options or options == [option] else UNKNOWN
            _add_option(options, option)
            if len(options) > MOST_OPTIONS and len(options := _put_together(options)) > MOST_OPTIONS:
                return UNKNOWN
    if len(options) == 1:
        return options[0]
    return Either(tuple(options)) if options else unstored


def _put_together(options: list[Value]) -> list[Value]:
    """The options, those of one kind as one value where they have something in common."""
    kinds: dict[type[Value], list[Value]] = {}
    for option in options:
        kinds.setdefault(type(option), []).append(option)
    merged = [(alike, alike[0].merged(alike[1:]) if len(alike) > 1 else None) for alike in kinds.values()]
    return [option for alike, whole in merged for option in ([whole] if whole else alike)]


def _add_option(options: list[Value], option: Value) -> None:
    for index, known in enumerate(options):
        if known is option:
            return
        if isinstance(known, Constant) and isinstance(option, Constant) and _same_literal(known.value, option.value):
            options[index] = known if known.default else option
            return
        if isinstance(known, Library) and isinstance(option, Library) and known.path == option.path:
            return
    options.append(option)


def _same_literal(one: Literal, other: Literal) -> bool:
    return type(one) is type(other) and one == other


def mapping_of(named: dict[str, Value], *, is_complete: bool) -> Mapping:
    """A dictionary with text keys."""
    entries: dict[Literal, Value] = {name: value for name, value in named.items()}  # noqa: C416 - widens the keys
    return Mapping(entries, is_complete)


def options_of(value: Value) -> tuple[Value, ...]:
    """The things that a value may be: itself, or the options of an Either."""
    return value.options if isinstance(value, Either) else (value,)


def literal(value: Value) -> Literal:
    """The literal that a value is when the script is started as it is, else None."""
    return value.value if isinstance(value, Constant) and not value.may_differ else None


def text_of(value: Value) -> str | None:
    """The string that a value is, by default or for certain, else None."""
    return value.value if isinstance(value, Constant) and isinstance(value.value, str) else None


def number_of(value: Value) -> float | None:
    """The number that a value is, by default or for certain, else None; booleans are no numbers, nor is infinity."""
    number = value.value if isinstance(value, Constant) else None
    if isinstance(number, float):
        return number if isfinite(number) else None
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def is_true(value: Value) -> bool:
    """Whether a value is true when the script is started as it is."""
    return bool(literal(value))


def is_missing(value: Value) -> bool:
    """Whether an argument was not given, or given as None."""
    return isinstance(value, Absent) or (isinstance(value, Constant) and value.value is None and not value.default)
