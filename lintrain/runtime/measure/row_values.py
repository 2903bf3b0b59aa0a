"""Values of many rows, a piece at a time: their range, their lengths, and which rows have a fault of their own.

The memory that this takes does not grow with the number of rows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import field
from heapq import nsmallest
from typing import Any

from lintrain.evidence.run import ColumnEvidence, RowFault, WrongRows
from lintrain.runtime.child.library import has, is_row, library
from lintrain.runtime.measure.arrow import MOST_VALUES, TOKEN_COLUMNS
from lintrain.runtime.measure.predictions import IGNORED
from lintrain.runtime.measure.tokenizer import binned, quantiles
from lintrain.startup.lazy_dataclass import dataclass

LABEL_NAMES = ("labels", "label", "label_ids")
IDS = TOKEN_COLUMNS[:2]
MASK = "attention_mask"
NAMED_IDS = re.compile(r"(^|[_.])(ids?|tokens?)$")
"""Names of token ids; other whole numbers may be counts."""
PIECE = 256
"""Rows whose numbers are looked at together."""
MOST_LABELS = 200_000
"""Labels that are kept, to see whether the rows are sorted by them."""
LARGEST_PIECE = 1_000_000
"""Numbers that are kept at most until they are looked at."""
MOST_FORMS = 1_000
FIRST = 3
TARGETS = re.compile(r"label|target|mask|seg|depth|^y$", re.IGNORECASE)
SMALLEST_IMAGE = 8
REPLACED = "\ufffd"
MANGLED = re.compile("\u00c3[\u0080-\u00bf]|\u00e2\u20ac[\u0153\u2122\u02dc\u201c\u201d\u00a6]|\u00c2[\u00a0-\u00bf]")
"""Letters of UTF-8 that were read as Latin-1: `Ã©` for `é`, `â€™` for an apostrophe."""


@dataclass(frozen=True)
class Limits:
    """What the model can read: ids below `embedding`, rows of `positions` tokens, labels below `classes`.

    `special` are the ids of the tokenizer that stand for no text; `labels` the names of label columns.
    """

    embedding: int | None = None
    positions: int | None = None
    classes: int | None = None
    special: tuple[int, ...] = ()
    labels: tuple[str, ...] = LABEL_NAMES


@dataclass(eq=False)
class _Found:
    count: int = 0
    first: dict[int, str] = field(default_factory=dict[int, str])
    error: str = ""


class Faults:
    """The faulty rows so far, by fault and column."""

    def __init__(self) -> None:
        self._found: dict[tuple[RowFault, str], _Found] = {}

    def add(self, fault: RowFault, column: str, row: int, text: str = "", error: str = "", rows: int = 1) -> None:
        """A row, or several of which the first is known."""
        self.add_rows(fault, column, {row: text}, rows, error)

    def add_rows(self, fault: RowFault, column: str, first: dict[int, str], rows: int, error: str = "") -> None:
        """Several rows at once, with what the first of them have."""
        if not rows:
            return
        found = self._found.setdefault((fault, column), _Found())
        found.count += rows
        found.error = found.error or error
        known = {**found.first, **first}
        found.first = {row: known[row] for row in nsmallest(FIRST, known)}

    def count(self, fault: RowFault, column: str) -> int:
        """How many rows of a column have a fault."""
        found = self._found.get((fault, column))
        return found.count if found else 0

    def drop(self, fault: RowFault, column: str) -> None:
        """Forget a fault that turned out to be none."""
        self._found.pop((fault, column), None)

    def listed(self) -> tuple[WrongRows, ...]:
        """All of them."""
        return tuple(
            WrongRows(fault, column, found.count, tuple(found.first), next(iter(found.first.values()), ""), found.error)
            for (fault, column), found in self._found.items()
        )


Form = tuple[Any, ...]


class Values:
    """One key of the rows: its numbers or texts, and the forms that they have (type, dtype and shape)."""

    def __init__(self, name: str, limits: Limits, faults: Faults, *, is_label: bool, is_input: bool = True) -> None:
        self.name = name
        self.rows = self.characters = 0
        self.forms = Counter[Form]()
        self.first_of: dict[Form, list[int]] = {}
        self.is_label = is_label
        self.is_input = is_input and not is_label and TARGETS.search(name) is None
        self._limits, self._faults = limits, faults
        self._waiting: list[tuple[int, Any]] = []
        self._size = 0
        self._first: tuple[str, str] | None = None
        self._is_scalar = self._is_integer = True
        self._minimum: float | None = None
        self._maximum: float | None = None
        self._counts: Counter[int] | None = Counter()
        self._lengths = Counter[int]()
        self._non_finite = 0
        self._ones: int | None = 0
        self._labels: list[tuple[Any, Any]] = []  # numbers of rows, and what these have
        self._labels_kept = 0
        self._lowest: tuple[int, int] | None = None  # a label, and the number of its first row
        self._highest: tuple[int, int] | None = None

    def add(self, row: int, value: Any) -> None:
        """The value of a row."""
        self.rows += 1
        array = None if isinstance(value, str) else as_numbers(value)
        form: Form = (type(value).__name__,) if array is None else (_kind(value), str(array.dtype), tuple(array.shape))
        self._keep_form(row, form)
        if self._first is None:
            self._first = (type(value).__name__, "" if array is None else str(array.dtype))
        if array is not None:
            self._keep(row, array)
        elif isinstance(value, str):
            self._read_text(row, value)
        elif self.is_input and has(value, "getextrema"):
            self._look_at_picture(row, value)

    def keep_kind(self, kind: str, dtype: str) -> None:
        """The type of a value and of its numbers, if no row was seen before."""
        self._first = self._first or (kind, dtype)

    def _keep_form(self, row: int, form: Form) -> None:
        if form in self.forms or len(self.forms) < MOST_FORMS:
            self.forms[form] += 1
            rows = self.first_of.setdefault(form, [])
            if len(rows) < FIRST:
                rows.append(row)

    def _read_text(self, row: int, text: str) -> None:
        self.characters += len(text)
        if self.is_input:
            if not text.strip():
                self._faults.add("empty text", self.name, row, repr(text)[:20])
            elif REPLACED in text:
                self._faults.add("replaced characters", self.name, row, _around(text, text.index(REPLACED)))
            elif (found := MANGLED.search(text)) is not None:
                self._faults.add("mangled characters", self.name, row, _around(text, found.start()))

    def _look_at_picture(self, row: int, image: Any) -> None:
        spans = image.getextrema()
        pairs = [spans] if spans and not is_row(spans[0]) else spans
        if all(low == high for low, high in pairs):
            self._faults.add("constant image", self.name, row, f"every pixel is {pairs[0][0]}")

    def _keep(self, row: int, array: Any) -> None:
        self._waiting.append((row, array))
        self._size += array.size
        if len(self._waiting) >= PIECE or self._size >= LARGEST_PIECE:
            self.look()

    def look(self) -> None:
        """Look at the numbers that wait."""
        waiting, self._waiting, self._size = self._waiting, [], 0
        if not waiting:
            return
        numpy = library("numpy")
        flat = numpy.concatenate([array.reshape(-1) for _, array in waiting])
        sizes = numpy.array([array.size for _, array in waiting])
        lengths = [len(array) for _, array in waiting if array.ndim]
        self.look_at([row for row, _ in waiting], flat, sizes, lengths, waiting[0][1].shape)

    def look_at(self, rows: Any, flat: Any, sizes: Any, lengths: Any, shape: tuple[int, ...]) -> None:
        """Look at the numbers of many rows, one row after the other; `shape` is that of the first."""
        self._is_scalar &= not shape
        if shape:
            self._lengths.update(lengths)
        if flat.dtype.kind == "f":
            self._is_integer = False
            self._look_for_holes(rows, flat, sizes)
        self._measure(flat)
        if flat.dtype.kind in "iu" and flat.size:
            self._compare_with_limits(rows, flat, sizes)
        if self.is_input and is_picture(shape):
            self._look_for_plain_pictures(rows, flat, sizes)

    def _look_for_plain_pictures(self, rows: Any, flat: Any, sizes: Any) -> None:
        numpy = library("numpy")
        if not flat.size:
            return
        full = numpy.flatnonzero(sizes)
        starts = (numpy.cumsum(sizes) - sizes)[full]
        plain = numpy.minimum.reduceat(flat, starts) == numpy.maximum.reduceat(flat, starts)
        first_of = dict(zip(full.tolist(), starts.tolist(), strict=True))
        self._add("constant image", rows, full[plain], lambda each: f"every value is {float(flat[first_of[each]]):g}")

    def _look_for_holes(self, rows: list[int], flat: Any, sizes: Any) -> None:
        numpy = library("numpy")
        finite = numpy.isfinite(flat)
        if finite.all():
            return
        self._non_finite += int(flat.size - finite.sum())
        counts = per_row(~finite, sizes)

        def text(position: int) -> str:
            return f"{counts[position]} of {sizes[position]} values" if sizes[position] > 1 else str(flat[position])

        self._add("non-finite", rows, numpy.flatnonzero(counts), text)

    def _add(self, fault: RowFault, rows: Any, positions: Any, text: Callable[[int], str]) -> None:
        """Rows with a fault; of the first of them it is said what they have."""
        numbers = library("numpy").asarray(rows)[positions]
        order = numbers.argsort(kind="stable")[:FIRST]
        first = {int(numbers[one]): text(int(positions[one])) for one in order}
        self._faults.add_rows(fault, self.name, first, len(positions))

    def _measure(self, flat: Any) -> None:
        numpy = library("numpy")
        known = flat[numpy.isfinite(flat)] if flat.dtype.kind == "f" else flat
        if known.size:
            low, high = float(known.min()), float(known.max())
            self._minimum = low if self._minimum is None else min(low, self._minimum)
            self._maximum = high if self._maximum is None else max(high, self._maximum)
        if self._ones is not None and flat.dtype.kind == "f":
            ones = flat == 1
            self._ones = self._ones + int(ones.sum()) if bool((ones | (flat == 0)).all()) else None
        if self._counts is None or self.name in TOKEN_COLUMNS or flat.dtype.kind not in "biu":
            self._counts = None
            return
        values, numbers = numpy.unique(flat, return_counts=True)
        self._counts.update(dict(zip(map(int, values), map(int, numbers), strict=True)))
        self._counts = self._counts if len(self._counts) <= MOST_VALUES else None

    def _compare_with_limits(self, rows: list[int], flat: Any, sizes: Any) -> None:
        numpy, limits = library("numpy"), self._limits
        if self.is_label:
            self._count(rows, sizes, flat, "label", self._beyond_head(flat))
            if self._is_scalar:
                self._keep_ends(numpy.asarray(rows), flat)
            if self._is_scalar and self._labels_kept < MOST_LABELS:
                self._labels.append((numpy.asarray(rows), flat))
                self._labels_kept += len(flat)
        elif self.name == MASK:
            empty = (per_row(flat != 0, sizes) == 0) & (sizes > 0)
            self._add("empty mask", rows, numpy.flatnonzero(empty), lambda each: f"{sizes[each]} zeros")
        elif not self._is_scalar:
            if limits.embedding is not None and NAMED_IDS.search(self.name):
                self._count(rows, sizes, flat, "token id", (flat >= limits.embedding) | (flat < 0))
            if self.name == "input_ids":
                self._look_for_words(rows, flat, sizes)

    def _keep_ends(self, rows: Any, flat: Any) -> None:
        """The rows with the lowest and the highest label: a head of fewer outputs is found after they were read."""
        kept = flat != IGNORED
        rows, labels = rows[kept], flat[kept]
        if labels.size:
            low, high = int(labels.min()), int(labels.max())
            lowest, highest = ((end, int(rows[labels == end].min())) for end in (low, high))
            self._lowest = lowest if self._lowest is None else min(self._lowest, lowest)
            # Of two rows with the highest label, the first.
            earlier = self._highest or highest
            self._highest = max(earlier, highest, key=lambda end: (end[0], -end[1]))

    def _beyond_head(self, flat: Any) -> Any:
        classes = self._limits.classes
        if classes is None or not self._is_scalar:
            return library("numpy").zeros(len(flat), bool)
        return (flat >= classes) | ((flat < 0) & (flat != IGNORED))

    def _count(self, rows: list[int], sizes: Any, flat: Any, fault: RowFault, wrong: Any) -> None:
        if not wrong.any():
            return
        counts = per_row(wrong, sizes)
        ends = library("numpy").cumsum(sizes)

        def value(position: int) -> str:
            own = slice(ends[position] - sizes[position], ends[position])
            return str(int(flat[own][wrong[own]][0]))

        self._add(fault, rows, library("numpy").flatnonzero(counts), value)

    def _look_for_words(self, rows: list[int], flat: Any, sizes: Any) -> None:
        numpy, limits = library("numpy"), self._limits
        if limits.special:
            words = per_row(~numpy.isin(flat, limits.special), sizes)
            self._add("only special tokens", rows, numpy.flatnonzero(words == 0), lambda each: f"{sizes[each]} tokens")
        if limits.positions is not None:
            long = numpy.flatnonzero(sizes > limits.positions)
            self._add("too long", rows, long, lambda each: f"{sizes[each]} tokens")

    def _runs(self) -> int | None:
        """In how many runs of equal labels the rows come; None if they have no labels."""
        numpy = library("numpy")
        if not self._labels or not self._is_scalar or not self._is_integer:
            return None
        rows, labels = (numpy.concatenate(parts) for parts in zip(*self._labels, strict=True))
        ordered = labels[numpy.argsort(rows, kind="stable")]
        return int((ordered[1:] != ordered[:-1]).sum()) + 1

    def column(self) -> ColumnEvidence:
        """The column as it is in the evidence of every split."""
        self.look()
        kind, dtype = self._first or ("", "")
        if not dtype:
            is_text = kind == "str"
            shown = ("text", "string") if is_text else (kind, kind)
            return ColumnEvidence(self.name, *shown, rows_read=self.rows)
        lengths = sorted(self._lengths.elements()) if not self._is_scalar else []
        return ColumnEvidence(
            self.name,
            self._kind_of_column(),
            dtype,
            minimum=self._minimum,
            maximum=self._maximum,
            counts=tuple(sorted(self._counts.items())) if self._counts and self._is_integer else (),
            lengths=quantiles(lengths),
            length_bins=binned(lengths),
            rows_read=self.rows,
            non_finite=self._non_finite,
            runs=self._runs(),
            lowest_row=self._lowest[1] if self._lowest else None,
            highest_row=self._highest[1] if self._highest else None,
            ones=self._ones if self._is_scalar and not self._is_integer else None,
        )

    def _kind_of_column(self) -> str:
        if self._is_scalar:
            return "integer" if self._is_integer else "number"
        if self.name in IDS:
            return "token ids"
        return "lists of integer" if self._is_integer else "lists of number"


def as_numbers(value: Any) -> Any | None:
    """A number, a list of them, an array or a tensor as NumPy has it; None for anything else."""
    if value is None or has(value, "getextrema"):
        return None
    try:
        array = library("numpy").asarray(value)
    except (TypeError, ValueError, RuntimeError):  # no numbers: images, nested structures, tensors on a device
        return None
    return array if array.dtype.kind in "biuf" else None


def per_row(values: Any, sizes: Any) -> Any:
    """The sum over the numbers of each row, of rows one after the other."""
    numpy = library("numpy")
    ends = numpy.cumsum(sizes)
    sums = numpy.concatenate([[0], numpy.cumsum(values, dtype=numpy.int64)])
    return sums[ends] - sums[ends - sizes]


def is_picture(shape: Iterable[int]) -> bool:
    """Whether a shape of three axes is that of an image: channels and two sizes."""
    sizes = sorted(shape)
    return len(sizes) == 3 and sizes[0] in (1, 3, 4) and sizes[1] >= SMALLEST_IMAGE


def _kind(value: Any) -> str:
    return "list" if is_row(value) else "number" if isinstance(value, int | float) else type(value).__name__


def _around(text: str, position: int) -> str:
    return repr(text[max(0, position - 12) : position + 12])
