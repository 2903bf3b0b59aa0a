"""Values without parts: what is not understood, what is not there, and literals with the option that they rest on."""

from __future__ import annotations

from collections import abc
from typing import Any, cast

from lintrain.model.location import Location
from lintrain.pipeline.values.certainty import Default, is_uncertain, note_read
from lintrain.startup.lazy_dataclass import dataclass

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
    within: Value | None = None
    """The value whose attribute or item it is: `x.shape` for the `x.shape[0]` of an unknown `x`."""


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
