"""What is known of a tensor between the model and the loss: its shape and the operations that computed it.

Special tokens, the text that code puts together with them, and what a script sets on a tokenizer.

Numbers that are not known but for what they count: the batches of a loader, multiplied and divided.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, replace

from lintrain.model.location import Location
from lintrain.pipeline.events import Condition
from lintrain.pipeline.values.python import UNKNOWN, Constant, Either, Unknown, Value
from lintrain.startup.lazy_dataclass import dataclass

CHANGED_IN_PLACE = "changed in place"
"""The use of a parameter that autograd records, by a method or an argument that changes it."""

CLASSES = -1
"""The size of an axis that has one number for each class, where it is not known how many those are."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a tensor's axes, None for one that is not known; `is_open` if other axes may come before them.

    A shape that is open and has no sizes is one of which nothing is known. `rows_first` if the first axis certainly
    counts the rows of a batch; what changes the axes has to say so again.
    """

    sizes: tuple[int | None, ...] = ()
    is_open: bool = True
    rows_first: bool = field(default=False, compare=False)

    @property
    def rank(self) -> int | None:
        """The number of axes, None if it is not known."""
        return None if self.is_open else len(self.sizes)

    @property
    def last(self) -> int | None:
        """The size of the last axis, None if it is not known."""
        return self.sizes[-1] if self.sizes else None

    def with_rows(self, *, first: bool) -> Shape:
        """The same sizes, with the rows of a batch on the first axis, or somewhere else."""
        return self if self.rows_first is first else Shape(self.sizes, self.is_open, first)

    def __str__(self) -> str:
        """The shape as documentation writes it: `(N, 1)`, `(…, 1)` if other axes may come before."""
        names = ["*" if size is None else "C" if size == CLASSES else str(size) for size in self.sizes]
        if names and not self.is_open and self.sizes[0] is None:
            names[0] = "N"
        names = ["…", *names] if self.is_open else names
        return f"({', '.join(names)}{',' if len(names) == 1 else ''})"


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation that made a tensor: its name (`softmax`), its location, its code and that of what it was given."""

    name: str
    location: Location | None = None
    text: str = ""
    given: str = ""


@dataclass(eq=False, slots=True)
class Derived(Unknown):
    """What an operation made of an unknown value: it equals nothing, and can be followed back to `of`.

    `by` names the operation (`slice`, `view`), `text` holds the code in its brackets, `shape` what it determines of
    the axes.
    """

    of: Value = UNKNOWN
    by: str = ""
    text: str = ""
    shape: Shape = field(default_factory=Shape)


def shape_of(value: Value) -> Shape:
    """The shape of the result of an operation on an unknown value, as far as the operation determines it."""
    return value.shape if isinstance(value, Derived) else Shape()


def root_of(value: Value) -> Value:
    """The unknown value that views, copies and moves were made of; slices are values of their own."""
    while isinstance(value, Derived) and value.by not in {"slice", "change"}:
        value = value.of
    return value


MOVES = frozenset({"to", "cuda", "cpu", "float", "double", "half", "bfloat16"})


def unmoved(value: Value) -> Value:
    """The unknown value that was moved or cast: a module itself, of which `net.to(device)` is no copy."""
    while isinstance(value, Derived) and value.by in MOVES:
        value = value.of
    return value


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
    """What a tokenizer's chat template makes of messages, as text; `adds_prompt` is `add_generation_prompt`.

    `goes_on` is `continue_final_message`, with which the last message is to be completed. `last_role` is who says that
    message.
    """

    owner: Value = UNKNOWN
    adds_prompt: Value = UNKNOWN
    goes_on: Value = UNKNOWN
    last_role: Value = UNKNOWN


@dataclass(eq=False, slots=True)
class TemplatedTokens(Unknown):
    """The token ids of what a chat template makes: a list, a tensor or a dictionary, depending on the version."""

    text_of: Templated = field(default_factory=Templated)


@dataclass(eq=False, slots=True)
class Generated(Unknown):
    """The text of all tokens that a causal model gave for a prompt, which are the prompt and what follows it."""


@dataclass(frozen=True, slots=True)
class TokenSetting:
    """A special token that the script gives a tokenizer: where, and under which conditions since that was made."""

    name: str
    value: Value
    location: Location
    conditions: tuple[Condition, ...] = ()


@dataclass(eq=False, slots=True)
class Count(Value):
    """The number of batches that a loader gives in one pass, times `multipliers`, divided by `divisors`.

    `is_exact` if nothing else was done to it; `made_at` is the number of events before the length was taken.
    """

    of: Value = UNKNOWN
    multipliers: tuple[Value, ...] = ()
    divisors: tuple[Value, ...] = ()
    is_exact: bool = True
    made_at: int = 0


@dataclass(eq=False, slots=True)
class Whole(Unknown):
    """A whole number that is not known."""


@dataclass(eq=False, slots=True)
class RowNumber(Whole):
    """The number of a row that `__getitem__` of a data set is asked for; `depth` counts the conditions around that."""

    depth: int = 0


@dataclass(eq=False, slots=True)
class KeyCount(Whole):
    """The number of keys of an encoding: `len(encodings)`; `depth` counts the conditions around that."""

    of: Value = UNKNOWN
    depth: int = 0


@dataclass(eq=False, slots=True)
class AxisSize(Whole):
    """The size of a tensor's axis, counted from the front, where it is not known: `x.size(0)`."""

    axis: int = 0


@dataclass(eq=False, slots=True)
class Real(Unknown):
    """A number with a point that is not known."""


NUMBERS = Constant | Count | Unknown | Either


def computed(left: Value, operator: str, right: Value, location: Location) -> Value | None:
    """The result of an operator on a count of batches and another number; None if it no longer counts batches."""
    if not isinstance(left, NUMBERS) or not isinstance(right, NUMBERS):
        return None
    count, other = (left, right) if isinstance(left, Count) else (right, left)
    if not isinstance(count, Count):
        return None
    match operator:
        case "Mult":
            return replace(count, multipliers=(*count.multipliers, other), origin=location)
        case "Div" | "FloorDiv" if count is left:
            return replace(count, divisors=(*count.divisors, other), origin=location)
        case "Add" | "Sub" if count is left or operator == "Add":
            return replace(count, is_exact=False, origin=location)
        case _:
            return None
