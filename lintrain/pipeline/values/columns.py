"""Columns of data sets: what they hold, and how their rows of tokens are padded."""

from __future__ import annotations

from dataclasses import field, replace
from enum import StrEnum

from lintrain.pipeline.values.python import Value
from lintrain.startup.lazy_dataclass import dataclass


class Kind(StrEnum):
    """What a column holds."""

    TEXT = "text"
    TOKENS = "token ids"
    MASK = "mask"
    CLASS = "class label"
    INTEGER = "integer"
    FLOAT = "float"
    LIST = "list"
    IMAGE = "image"
    AUDIO = "audio"
    UNKNOWN = "unknown"


class Padding(StrEnum):
    """How far rows of tokens are padded: not, to the longest of a batch, all to one length, or not understood."""

    NONE = "none"
    LONGEST = "longest"
    FIXED = "fixed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Column:
    """One column: what it holds, its class names in order, how its token rows are padded, and who says so.

    `copied_from` names the column whose values it repeats; `is_masked` says that some of them were set to -100;
    `written` is the text that code put together for it; `is_moved`: its tokens are those after the `input_ids`.
    `made_by` is the tokenizer call that gave its ids; `is_stacked` if each of them has the leading dimension of one
    that such a call leaves with `return_tensors`.
    """

    name: str
    kind: Kind = Kind.UNKNOWN
    class_names: tuple[str, ...] = ()
    num_classes: int | None = None
    padding: Padding = Padding.UNKNOWN
    truncated: bool | None = None
    max_length: int | None = None
    source: str = ""
    copied_from: str = ""
    is_masked: bool = False
    masked_from: str = ""
    """The column whose values it repeats but for those that were set to -100."""
    written: Value | None = None
    item: Kind = Kind.UNKNOWN
    """What the entries of a list are."""
    is_moved: bool = False
    made_by: Value | None = field(default=None, compare=False)
    is_stacked: bool = False

    def named(self, name: str) -> Column:
        """The same column under another name."""
        return replace(self, name=name)
