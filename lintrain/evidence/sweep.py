"""What a pass over all rows of a data set found, within a bounded time: which rows are wrong, and what repeats."""

from __future__ import annotations

from typing import Literal

from lintrain.startup.lazy_dataclass import dataclass

RowFault = Literal[
    "raises",
    "collation",
    "dtype",
    "non-finite",
    "empty text",
    "replaced characters",
    "mangled characters",
    "only special tokens",
    "constant image",
    "token id",
    "too long",
    "label",
    "mask length",
    "empty mask",
]
"""What may be wrong with a row; `report.text` and the rules say it in words."""


SHOWN = 3
WORDS: dict[RowFault, str] = {
    "raises": "cannot be read: {error}",
    "collation": "{column} has {text}; {error}",
    "dtype": "{column} makes its batch {text}",
    "non-finite": "{column} is NaN or infinite ({text})",
    "empty text": "{column} is empty",
    "replaced characters": "{column} has characters that could not be decoded ({text})",
    "mangled characters": "{column} was decoded with the wrong encoding ({text})",
    "only special tokens": "{column} holds no token of a text ({text})",
    "constant image": "{column} is an image of one value ({text})",
    "token id": "{column} has the id {text}",
    "too long": "{column} has {text}",
    "label": "{column} is {text}",
    "mask length": "{column} has {text}",
    "empty mask": "{column} is zero everywhere ({text})",
}


@dataclass(frozen=True, slots=True)
class WrongRows:
    """Rows of a split with the same fault: how many, and the numbers of the first three.

    `column` is the key or the position in a row, "" for the row itself. `text` says what the first of them has (`9
    entries instead of 8`), and `error` what the collator or the data set raises for it.
    """

    fault: RowFault
    column: str
    count: int
    first: tuple[int, ...]
    text: str = ""
    error: str = ""

    def in_words(self, *, numbered: bool = True) -> str:
        """How many rows, the first three, and what the first of them has."""
        column = f"`{self.column}`" if self.column else "it"
        what = WORDS[self.fault].format(column=column, text=self.text, error=self.error)
        if not numbered:
            return f"{self.count} row{'s' * (self.count > 1)}: {what}"
        if self.count == 1:
            return f"row {self.first[0]}: {what}"
        first = ", ".join(map(str, self.first[:SHOWN]))
        return f"{self.count} rows ({first}{', …' if self.count > len(self.first) else ''}): {what}"


@dataclass(frozen=True, slots=True)
class RepeatedRows:
    """Rows as the model reads them, compared without their labels.

    `repeated` of `compared` rows are equal to an earlier one, `conflicting` are equal to a row of another label;
    `first` are the numbers of two that conflict.
    """

    compared: int
    repeated: int
    conflicting: int = 0
    first: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TargetCopy:
    """A number among the inputs that tells the target by itself, in all of `rows` rows.

    `column` is the key or the position in a row, `indices` those of the number in it, () for a bare one. `how`: it
    has one value for each `class`, it has one for the rows of a class and a `gap` to those of others, or it is the
    target itself, a `number`, possibly in another unit.
    """

    column: str
    indices: tuple[int, ...]
    how: Literal["class", "gap", "number"]
    rows: int


@dataclass(frozen=True, slots=True)
class Sweep:
    """The rows of a split that were read, of how many (None for a stream), and in which time.

    `numbered` says whether a row's number is that of the script's data set: rows that a probe repeats have none.
    `pictures_changed` of `pictures_read` rows with a picture and a class gave another picture when they were read once
    more.
    """

    rows: int
    of: int | None
    seconds: float
    wrong: tuple[WrongRows, ...] = ()
    repeats: RepeatedRows | None = None
    numbered: bool = True
    pictures_read: int = 0
    pictures_changed: int = 0
    target_copy: TargetCopy | None = None

    @property
    def is_whole(self) -> bool:
        """Whether every row was read."""
        return self.of is not None and self.rows >= self.of

    def with_fault(self, *faults: RowFault) -> tuple[WrongRows, ...]:
        """The rows with one of some faults, in the order in which these are named."""
        return tuple(each for fault in faults for each in self.wrong if each.fault == fault)
