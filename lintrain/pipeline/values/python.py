"""Values of the language itself, as far as the reader understands them."""

from __future__ import annotations

import ast
from collections import abc
from collections.abc import Iterable
from dataclasses import field
from math import isfinite
from typing import TYPE_CHECKING

from lintrain.model.location import Location
from lintrain.pipeline.values.basic import ABSENT as ABSENT
from lintrain.pipeline.values.basic import UNKNOWN as UNKNOWN
from lintrain.pipeline.values.basic import Absent as Absent
from lintrain.pipeline.values.basic import Constant as Constant
from lintrain.pipeline.values.basic import Literal as Literal
from lintrain.pipeline.values.basic import OneOf as OneOf
from lintrain.pipeline.values.basic import OptionValue as OptionValue
from lintrain.pipeline.values.basic import Unknown as Unknown
from lintrain.pipeline.values.basic import Unstored as Unstored
from lintrain.pipeline.values.basic import Value as Value
from lintrain.pipeline.values.basic import constant as constant
from lintrain.pipeline.values.certainty import Default
from lintrain.pipeline.values.closure import MOST_CLASSES, Closure, ancestry_of
from lintrain.startup.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from lintrain.source.source import Source


MOST_OPTIONS = 4
"""A value that may be more than this many things is Unknown: no rule can judge it."""


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

    def merged(self, others: abc.Sequence[Value]) -> Value | None:
        """Tuples of one length: each item is any of theirs."""
        rows = [each for each in (self, *others) if isinstance(each, Sequence) and each.is_complete]
        is_tuple = all(row.kind == "tuple" and len(row.items) == len(self.items) for row in rows)
        if len(rows) <= len(others) or not is_tuple:
            return None
        return Sequence([join(items) for items in zip(*(row.items for row in rows), strict=True)], "tuple")

    @property
    def knows_items(self) -> bool:
        """Whether each item is certainly one of `items`."""
        return self.is_complete or self.is_closed


@dataclass(eq=False, slots=True)
class Fields(Sequence):
    """A tuple of a library whose items have names as well: `packed.data`, `tensor.max(1).values`."""

    names: tuple[str, ...] = ()


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
    `others` is any of what is under keys that are not known, where that is known. `factory` makes the entry of a key
    that is missing, as long as no key was unknown: a `defaultdict`. `sides` are the sides of `if` statements that
    entries were added on, each the location of its `if` and whether it is the `else`.
    """

    entries: dict[Literal, Value]
    is_complete: bool = True
    written: dict[Literal, Location] = field(default_factory=lambda: {})
    others: Value | None = None
    factory: Value | None = None
    sides: dict[Literal, frozenset[tuple[Location, bool]]] = field(default_factory=lambda: {})

    def exclude_each_other(self) -> frozenset[Literal]:
        """The keys that some run has without another key: they were added on the two sides of one `if`."""
        opposite = {(location, not is_else) for sides in self.sides.values() for location, is_else in sides}
        return frozenset(key for key, sides in self.sides.items() if not opposite.isdisjoint(sides))

    def merged(self, others: abc.Sequence[Value]) -> Value | None:
        """Dictionaries with the same keys: each entry is any of theirs."""
        rows = [each for each in (self, *others) if isinstance(each, Mapping)]
        if len(rows) <= len(others):
            return None
        # Inputs of one model or another: what all of them have, and others that some have.
        common = [key for key in self.entries if all(key in row.entries for row in rows)]
        is_same = all(row.is_complete and len(row.entries) == len(common) for row in rows)
        if not common:
            return None
        return Mapping({key: join(row.entries[key] for row in rows) for key in common}, is_same)


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
    """An object of a class of the script; its attributes as far as they were set.

    `base` is what it has from a library's class that it derives from: a parser, a dictionary. `switched_off` are the
    parameters for dropout that its constructor got 0, False or None for. `any_of` are the objects that it may be, if
    there are too many to keep apart.
    """

    cls: Class
    attributes: dict[str, Value] = field(default_factory=lambda: {})
    base: Value | None = None
    switched_off: frozenset[str] = frozenset()
    any_of: tuple[Instance, ...] = ()

    def merged(self, others: abc.Sequence[Value]) -> Value | None:
        """Objects of one class: each attribute is any of theirs."""
        objects = [each for each in (self, *others) if isinstance(each, Instance) and each.cls is self.cls]
        if len(objects) <= len(others):
            return None
        common = [name for name in self.attributes if all(name in each.attributes for each in objects)]
        held = {name: join(each.attributes[name] for each in objects) for name in common}
        off = self.switched_off.intersection(*(each.switched_off for each in objects))
        anyone = tuple(dict.fromkeys(one for each in objects for one in each.any_of or (each,)))
        return Instance(self.cls, held, switched_off=off, any_of=anyone, origin=self.origin)


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
