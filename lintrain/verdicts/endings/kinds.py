"""A kind of error: what raises it, what has to be true of the failing call, its cause, and what to write instead.

The message alone names no cause: the same text has several. A kind whose `when` measured that it is not the cause does
not apply, and one whose values were not measured is only likely.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property

from lintrain.evidence.stages import Failure, GivenValue
from lintrain.startup.lazy_dataclass import dataclass

Answer = str | bool | None
"""What was measured: a text or True if a kind is the cause, False if it is not, None if the values are unknown."""


class Raised:
    """An error, and the groups of the pattern that its message matched."""

    def __init__(self, failure: Failure, groups: dict[str, str]) -> None:
        self.failure = failure
        self.groups = groups

    def number(self, group: str) -> int:
        """A number in the message."""
        return int(self.groups[group])

    def value(self, name: str, function: str = "") -> GivenValue | None:
        """An argument of a library's function, or a value of the user's line."""
        matching = (each for each in self.failure.given if each.name == name and self._is_of(each, function))
        return next(matching, None)

    @staticmethod
    def _is_of(value: GivenValue, function: str) -> bool:
        return value.function.endswith(f".{function}") if function else not value.function

    @property
    def written(self) -> tuple[GivenValue, ...]:
        """The values that the user's line names."""
        return tuple(each for each in self.failure.given if not each.function)

    def written_as(self, kind: str) -> Iterator[GivenValue]:
        """The values of a kind that the user's line names."""
        return (each for each in self.written if each.kind == kind)

    @cached_property
    def was_measured(self) -> bool:
        """Whether values are known; a traceback that was saved as text has none."""
        return bool(self.failure.given)

    def called(self, value: GivenValue) -> str:
        """A value by its name in the user's line if it is there, else by the library's."""
        same = (each.name for each in self.written if each.shape == value.shape and each.highest == value.highest)
        return f"`{next((name for name in same if value.shape is not None), value.name)}`"

    def is_inside(self, *texts: str) -> bool:
        """Whether the user's line is in a block whose head contains one of the texts."""
        return any(text in head for head in self.failure.around for text in texts)


@dataclass(frozen=True, slots=True)
class Kind:
    """One cause of an error. `cause` and `fix` may contain the groups of `pattern` in braces.

    `types` are names of classes, one of which the error is; `raised_in` is a pattern of the function that raises it.
    `page` is the rule that explains the mistake. With `is_of_surroundings` the script is not at fault: what it needs is
    not on this machine.
    """

    name: str
    library: str
    types: str
    pattern: str
    cause: str
    fix: str
    when: Callable[[Raised], Answer] | None = None
    page: str = ""
    raised_in: str = ""
    is_of_surroundings: bool = False

    def matches(self, failure: Failure) -> Raised | None:
        """The error as this kind sees it; None for an error with another message, class or origin.

        A message without a class, which a person has copied, is of any class.
        """
        if not ({failure.type, *failure.kinds} & set(self.types.split()) if failure.type else self.pattern):
            return None
        found = re.search(self.pattern, failure.message, re.DOTALL)
        is_elsewhere = self.raised_in and failure.raised_in and not re.search(self.raised_in, failure.raised_in)
        if found is None or is_elsewhere or (self.raised_in and failure.given and not failure.raised_in):
            return None
        return Raised(failure, {name: text or "" for name, text in found.groupdict().items()})

    def answer(self, raised: Raised) -> Answer:
        """What the failing call shows about this cause."""
        if self.raised_in and not raised.failure.raised_in:
            return None
        return True if self.when is None else self.when(raised)

    def cause_of(self, raised: Raised) -> str:
        """The cause with the numbers and names of the message."""
        return self.cause.format_map(raised.groups)

    def fix_of(self, raised: Raised) -> str:
        """What to write, with the numbers and names of the message."""
        return self.fix.format_map(raised.groups)
