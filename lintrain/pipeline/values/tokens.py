"""Special tokens, the text that code puts together with them, and what a script sets on a tokenizer."""

from __future__ import annotations

from collections.abc import Iterable

from lintrain.model.location import Location
from lintrain.pipeline.events import Condition
from lintrain.pipeline.values.python import UNKNOWN, Unknown, Value
from lintrain.startup.lazy_dataclass import dataclass

MOST_PARTS = 1_000
"""Parts that a text is known to be put together of: one that is doubled line by line has no end of them."""

KINDS = ("pad", "eos", "bos", "unk", "mask", "sep", "cls")
SPECIAL_TOKENS = frozenset(f"{kind}_token{ending}" for kind in KINDS for ending in ("", "_id"))
"""A tokenizer's attributes that hold its special tokens, as text and as ids."""


@dataclass(eq=False, slots=True)
class SpecialToken(Unknown):
    """A special token of a tokenizer; `name` is the attribute there (`eos_token`, `pad_token_id`)."""

    owner: Value = UNKNOWN

    @property
    def kind(self) -> str:
        """Which special token it is: `eos`, `pad`, …"""
        return self.name.partition("_")[0]


@dataclass(eq=False, slots=True)
class Text(Unknown):
    """Text that code puts together out of these parts, in order: literals, columns, special tokens."""

    parts: tuple[Value, ...] = ()
    size: int = 1
    """The number of its parts, those of the texts in it written out."""

    @classmethod
    def of(cls, parts: Iterable[Value], location: Location) -> Text:
        """The text of these parts; where it is put together of too many, none of them is known."""
        known = tuple(parts)
        size = sum(part.size if isinstance(part, Text) else 1 for part in known)
        return cls(parts=known, size=size, origin=location) if size <= MOST_PARTS else cls(origin=location)


@dataclass(eq=False, slots=True)
class Templated(Unknown):
    """What a tokenizer's chat template makes of messages, as text; `adds_prompt` is `add_generation_prompt`."""

    owner: Value = UNKNOWN
    adds_prompt: Value = UNKNOWN


@dataclass(frozen=True, slots=True)
class TokenSetting:
    """A special token that the script gives a tokenizer: where, and under which conditions since that was made."""

    name: str
    value: Value
    location: Location
    conditions: tuple[Condition, ...] = ()
