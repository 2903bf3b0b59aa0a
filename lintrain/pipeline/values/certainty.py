"""What a value rests on besides the text: the default of an option, which its user may change.

A rule reads such a value like any other. While a rule runs, `recorded_defaults` collects the defaults that it reads,
and `without` makes one of them unknown: a finding that then disappears rests on it (`lintrain/check/assumptions.py`).
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import TYPE_CHECKING

from lintrain.startup.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from lintrain.model.location import Location


@dataclass(frozen=True, slots=True)
class Default:
    """Why a value may be another one: `option` is what the user passes (`--model`), `text` what it is by default.

    Without an option it is not known how likely another value is: a parameter of a function that something else may
    call, or an attribute that a branch sets. Rules take such a value for unknown where a wrong guess would be a false
    alarm. `is_switch` for an option without a value (`--fp16`).
    """

    option: str = ""
    text: str = ""
    location: Location | None = None
    is_switch: bool = False

    @property
    def is_file(self) -> bool:
        """Whether it is a file of settings, any of which the command line may change: `config.yaml:`."""
        return self.option.endswith(":")

    @property
    def shown(self) -> str:
        """The option as its user would write it."""
        if self.is_switch or not self.text:
            return self.option
        return f"{self.option}{self.text}" if self.option.endswith("=") else f"{self.option} {self.text}"


OF_PARAMETER = "--"
"""An option that is called like the parameter that it is the default of."""

UNCERTAIN = Default()
"""The default of something that is no option."""


@dataclass(eq=False, slots=True)
class Reading:
    """The defaults that were read, and the one that counts as unknown or, for a switch, as passed.

    It records inside its block: each rule has one, so that a generator around the block would cost half of an idle one.
    """

    defaults: dict[Default, None]
    changed: Default | None = None
    is_passed: bool = False
    _token: Token[Reading | None] | None = None

    def __enter__(self) -> Reading:
        self._token = _READING.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _READING.reset(self._token)


_READING: ContextVar[Reading | None] = ContextVar("reading", default=None)


def note_read(default: Default) -> Reading | None:
    """Record that a value that rests on a default is read; None if nothing records it."""
    reading = _READING.get()
    if reading is not None:
        reading.defaults[default] = None
    return reading


def recorded_defaults(changed: Default | None = None, *, is_passed: bool = False) -> Reading:
    """Record the options whose defaults are read inside; `changed` is unknown there, or a switch that is passed."""
    return Reading({}, changed, is_passed)


def is_uncertain(default: Default | None) -> bool:
    """Whether what rests on a default counts as unknown: one that is no option's, or is unknown just now."""
    if default is None or not default.option:
        return default is not None
    reading = note_read(default)
    # A switch that is tried on is known: its value is the other one.
    return reading is not None and reading.changed == default and not reading.is_passed
