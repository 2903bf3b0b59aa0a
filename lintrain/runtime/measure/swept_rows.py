"""Rows that a data set of the script's own gives one by one: what they hold, and which of them cannot be collated.

A row of another form than nearly all others is collated with one of those, by the run's own collator: only what it
raises then, or makes of it, is a fault. A collator that pads has no such rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from lintrain.evidence.run import ColumnEvidence, RepeatedRows, RowFault, WrongRows
from lintrain.runtime.child.library import is_mapping, is_row, is_tuple
from lintrain.runtime.measure.filled_values import NOTHING_SEEN, Filled
from lintrain.runtime.measure.objects.statements import mentions
from lintrain.runtime.measure.row_values import IDS, LABEL_NAMES, MASK, Faults, Form, Limits, Values, as_numbers
from lintrain.runtime.measure.seen import tensors_in
from lintrain.runtime.measure.target_copies import MOST_ROWS, TargetCopies
from lintrain.startup.lazy_dataclass import dataclass

FEWEST = 20
"""Rows without which nothing is an exception."""
NEARLY_ALL = 0.9
MOST_FORMS = 6
"""Forms of rows that are given to the collator."""
MOST_KEYS = 100_000
"""Rows that are remembered, to find those that come twice."""
FEWEST_TOKENS = 4
LONGEST_ERROR = 160
CASTS = r"\.(float|long|bfloat16|half)\(\)|\.(type|astype)\(|\.to\([^)\n]*(float|dtype)|FloatTensor|autocast"
"""What makes one format of several."""


@dataclass(frozen=True)
class Reading:
    """How the rows of a data set come to the model.

    `rows` are those that are drawn, None for all; `collate` makes a batch, None if that is not known; `mixes` says
    whether any two rows may come into one batch, `draws_all` whether every one of them is drawn. `filled` knows where
    the script fills NaN.
    """

    rows: Any = None
    collate: Callable[[list[Any]], Any] | None = None
    mixes: bool = False
    name: str = "the collator"
    draws_all: bool = True
    filled: Filled = NOTHING_SEEN


@dataclass(frozen=True)
class Odd:
    """Rows of a form that few have: what the first of them has instead."""

    column: str
    rows: int
    first: dict[int, str]


class RowsSeen:
    """What all rows that were read show together."""

    def __init__(self, limits: Limits, names: tuple[str, ...] = ()) -> None:
        self.rows = 0
        self.faults = Faults()
        self._limits = limits
        self.label_names = {*limits.labels, *LABEL_NAMES, *names}
        self._values: dict[str, Values] = {}
        self._top: list[str] = []
        self._others: dict[str, str] = {}
        self._structures = Counter[Form]()
        self._first_of: dict[Form, list[int]] = {}
        self._has_parts = True
        self.repeats = Repeats()
        self.copies = TargetCopies()

    def add(self, number: int, row: Any) -> None:
        """A row."""
        self.rows += 1
        structure = _structure(row)
        # A row that is a single tensor has no names, and a column "0" would be an invention.
        self._has_parts &= is_mapping(row) or is_tuple(row)
        self._structures[structure] += 1
        first = self._first_of.setdefault(structure, [])
        # Three examples are shown at most, so no more are kept.
        if len(first) < 3:
            first.append(number)
        label: Any = None
        for name, value in parts_of(row).items():
            is_label = self._is_label(row, name)
            label = value if is_label else label
            if is_mapping(value) or (is_row(value) and value and not _is_numbers(value)):
                self._add_nested(number, name, value)
            else:
                self.values_of(name, is_label=is_label).add(number, value)
        self._compare_mask(number, row)
        self.repeats.add(number, row, label, self.label_names)
        if self.rows <= MOST_ROWS:
            self.copies.add(*_numbers_in(row, self.label_names))

    def _add_nested(self, number: int, name: str, value: Any) -> None:
        """The parts of a row's part: not columns of the split, but faults of theirs are those of the row."""
        self._others.setdefault(name, type(value).__name__)
        if name not in self._top:
            self._top.append(name)
        if is_mapping(value):
            for key, inner in value.items():
                inner_name = f"{name}.{key}"
                self.values_of(inner_name, is_label=key in self.label_names, is_top=False).add(number, inner)

    def values_of(self, name: str, *, is_label: bool | None = None, is_top: bool = True) -> Values:
        """What was seen of a key, or of a position."""
        if name not in self._values:
            is_input = not name.isdigit() or name == "0"
            named = name in self.label_names if is_label is None else is_label
            self._values[name] = Values(name, self._limits, self.faults, is_label=named, is_input=is_input)
            if is_top and name not in self._top:
                self._top.append(name)
        return self._values[name]

    def _is_label(self, row: Any, name: str) -> bool:
        if is_mapping(row):
            return name in self.label_names
        return is_tuple(row) and len(row) == 2 and name == "1"

    def _compare_mask(self, number: int, row: Any) -> None:
        if not is_mapping(row) or MASK not in row or "input_ids" not in row:
            return
        try:
            tokens, mask = len(row["input_ids"]), len(row[MASK])
        except TypeError:
            return
        if tokens != mask:
            self.faults.add("mask length", MASK, number, f"{mask} entries for {tokens} tokens")

    def columns(self) -> list[ColumnEvidence]:
        """The keys of the rows as columns, or the positions of a tuple."""
        found: list[ColumnEvidence] = []
        if not self._has_parts:
            return found
        for name in self._top:
            if name in self._values:
                found.append(self._values[name].column())
            else:
                found.append(ColumnEvidence(name, self._others[name].lower(), self._others[name], rows_read=self.rows))
        return found

    def wrong(self) -> tuple[WrongRows, ...]:
        """The faulty rows."""
        texts = {values.name: values.characters for values in self._values.values() if values.characters}
        for values in self._values.values():
            values.look()
            # Other texts of a row may be left out: only the longest is what the row is about.
            if "input_ids" in self._values or values.name != max(texts, key=lambda name: texts[name], default=""):
                self.faults.drop("empty text", values.name)
            # A column that many rows exceed holds no ids of this embedding.
            if values.name not in IDS and self.faults.count("token id", values.name) > values.rows / 10:
                self.faults.drop("token id", values.name)
            # A mask that also covers what is put before the tokens is longer in every row.
            if values.name == MASK and self.faults.count("mask length", MASK) > values.rows / 10:
                self.faults.drop("mask length", MASK)
        return self.faults.listed()

    def usual(self) -> list[int]:
        """Up to three rows of the form that nearly all have."""
        odd = {row for each in self.odd() for row in each.first}
        # Rows that are usual in everything: one that is odd in a single column may break the batch by itself.
        rows = self._first_of[self._structures.most_common(1)[0][0]] if self._structures else []
        of_values = [values.first_of[_main(values)[0]] for values in self._values.values() if values.forms]
        return list(dict.fromkeys(row for part in (*of_values, rows) for row in part if row not in odd))[:3]

    def odd(self) -> list[Odd]:
        """Rows of a form that few have."""
        if self.rows < FEWEST:
            return []
        found = list(self._odd_structures())
        for values in self._values.values():
            found += _odd_values(values)
        return found[:MOST_FORMS]

    def _odd_structures(self) -> list[Odd]:
        if not self._structures:
            return []
        (main, count), *others = self._structures.most_common()
        # Two frequent forms are two kinds of rows that the script means, not one with exceptions.
        if count < NEARLY_ALL * self.rows:
            return []
        return [
            Odd("", rows, dict.fromkeys(self._first_of[structure], _instead(structure, main)))
            for structure, rows in others
        ]


def _numbers_in(row: Any, label_names: set[str]) -> tuple[dict[str, Any], Any]:
    """The numbers that a model reads of a row, as an array with that row alone, and its target."""
    parts = parts_of(row)
    target = next((name for name in parts if name in label_names), None)
    target = target if is_mapping(row) or len(parts) < 2 else list(parts)[-1]
    arrays = {name: array[None] for name, part in parts.items() if (array := as_numbers(part)) is not None}
    wanted = arrays.pop(target, None) if target is not None else None
    # Whole numbers in rows are tokens, and those of a third part may be numbers of rows.
    is_other = len(parts) > 2 and not is_mapping(row) and wanted is not None and wanted.dtype.kind != "f"
    return {name: array for name, array in arrays.items() if array.dtype.kind == "f"}, None if is_other else wanted


def parts_of(row: Any) -> Mapping[str, Any]:
    """The columns of a row by their key or position."""
    if is_mapping(row):
        return {str(name): value for name, value in row.items()}
    # A list may be the numbers of one row; the parts of a row come as a tuple.
    if is_tuple(row):
        return {str(position): value for position, value in enumerate(row)}
    return {"0": row}


def _is_numbers(value: Any) -> bool:
    return isinstance(value[0], int | float) or as_numbers(value) is not None


def _structure(row: Any) -> Form:
    if is_mapping(row):
        return ("mapping", *sorted(map(str, row)))
    return ("row", len(row)) if is_tuple(row) else (type(row).__name__,)


def _instead(structure: Form, main: Form) -> str:
    if structure[0] == main[0] == "mapping":
        missing = [name for name in main[1:] if name not in structure[1:]]
        added = [name for name in structure[1:] if name not in main[1:]]
        return f"no `{missing[0]}`" if missing else f"`{added[0]}` as well"
    if structure[0] == main[0] == "row":
        return f"{structure[1]} values instead of {main[1]}"
    return f"a {structure[0]} instead of a {main[0]}"


def _main(values: Values) -> tuple[Form, int]:
    return values.forms.most_common(1)[0]


def _odd_values(values: Values) -> list[Odd]:
    """The forms of a key that few rows have; sizes that vary from row to row are no form."""
    if not values.forms:
        return []
    free = _free_axes(values)
    forms, first = Counter[Form](), dict[Form, list[int]]()
    shapes = dict[Form, Form]()
    for form, count in values.forms.items():
        reduced = _reduced(form, free)
        forms[reduced] += count
        first[reduced] = sorted([*first.get(reduced, []), *values.first_of[form]])[:3]
        shapes.setdefault(reduced, form)
    (main, count), *others = forms.most_common()
    if count < NEARLY_ALL * values.rows:
        return []
    return [
        Odd(values.name, rows, dict.fromkeys(first[form], _another(shapes[form], shapes[main])))
        for form, rows in others
    ]


def _free_axes(values: Values) -> set[int]:
    """The axes whose size is not that of nearly all rows."""
    shaped = [(form, count) for form, count in values.forms.items() if len(form) == 3]
    axes = max((len(form[2]) for form, _ in shaped), default=0)
    free = set[int]()
    for axis in range(axes):
        sizes = Counter[int]()
        for form, count in shaped:
            if len(form[2]) > axis:
                sizes[form[2][axis]] += count
        # Lengths of `[512, 512, 512, 511]` make an exception of the last row; `[12, 40, 33, 27]` are texts.
        if sizes.most_common(1)[0][1] < NEARLY_ALL * sizes.total():
            free.add(axis)
    return free


def _reduced(form: Form, free: set[int]) -> Form:
    if len(form) != 3:
        return form
    return (form[0], form[1], tuple(-1 if axis in free else size for axis, size in enumerate(form[2])))


def _another(form: Form, main: Form) -> str:
    if len(form) != 3 or len(main) != 3:
        return f"{_in_words(form)} instead of {_in_words(main)}"
    if form[2] != main[2]:
        if len(form[2]) == len(main[2]) == 1:
            return f"{form[2][0]} entries instead of {main[2][0]}"
        return f"shape {list(form[2])} instead of {list(main[2])}"
    return f"{form[1]} instead of {main[1]}" if form[1] != main[1] else f"a {form[0]} instead of a {main[0]}"


def _in_words(form: Form) -> str:
    return f"{form[1]} {list(form[2])}" if len(form) == 3 else form[0].replace("NoneType", "None")


class Repeats:
    """Rows of tokens, texts or images that come twice, and the labels that they come with."""

    def __init__(self) -> None:
        self._compared = self._repeated = 0
        self._first: dict[int, tuple[int, Any]] = {}
        self._counts = Counter[int]()
        self._conflicting: dict[int, tuple[int, int]] = {}

    def add(self, number: int, row: Any, label: Any, label_names: set[str]) -> None:
        """A row; those after the first many are not compared."""
        if self.room and (key := _key(row, label_names)) is not None:
            self.add_key(key, number, _class(label))

    @property
    def room(self) -> int:
        """How many more rows are compared."""
        return MOST_KEYS - self._compared

    def add_key(self, key: int, number: int, value: int | None) -> None:
        """What a model reads of a row, as a number, and the row's class."""
        self._compared += 1
        self._counts[key] += 1
        if key not in self._first:
            self._first[key] = (number, value)
            return
        self._repeated += 1
        first, known = self._first[key]
        if value is not None and known is not None and value != known:
            # The first pair is enough to show; all rows of the key count as conflicting.
            self._conflicting.setdefault(key, (first, number))

    def found(self) -> RepeatedRows | None:
        """The counts; None if no row could be compared."""
        if not self._compared:
            return None
        conflicting = sum(self._counts[key] for key in self._conflicting)
        return RepeatedRows(self._compared, self._repeated, conflicting, next(iter(self._conflicting.values()), ()))


def _class(label: Any) -> int | None:
    array = as_numbers(label) if label is not None and not isinstance(label, str) else None
    return int(array) if array is not None and array.ndim == 0 and array.dtype.kind in "iub" else None


def _key(row: Any, label_names: set[str]) -> int | None:
    """What a model reads of a row, as a number; None for rows of a few numbers, which repeat by nature."""
    parts = [value for name, value in parts_of(row).items() if name not in label_names and name != MASK]
    parts = parts if is_mapping(row) else parts[:1]
    keys = [key for part in parts if (key := _part(part)) is not None]
    return hash(tuple(keys)) if keys else None


def _part(part: Any) -> Any:
    if isinstance(part, str):
        return part
    array = as_numbers(part)
    if array is None or not array.ndim:
        return None
    is_tokens = array.ndim == 1 and array.dtype.kind in "iu" and array.size >= FEWEST_TOKENS
    # Images of one color are a fault of their own.
    return array.tobytes() if is_tokens or (array.ndim == 3 and array.size and array.min() < array.max()) else None


def collation_faults(seen: RowsSeen, read: Callable[[int], Any], reading: Reading) -> None:
    """Collate the rows of a form that few have with one that nearly all have: what that raises is their fault."""
    collate, usual, odd = reading.collate, seen.usual(), seen.odd()
    if collate is None or not reading.mixes or len(usual) < 2:
        return
    try:
        known = collate([read(usual[0]), read(usual[1])])
    except Exception:  # noqa: BLE001 - the batch stage shows what is wrong with every row
        return
    for each in odd:
        row = next(iter(each.first))
        fault, text, error = _collated(collate, read(usual[0]), read(row), known)
        if fault is not None:
            first = {number: text or own for number, own in each.first.items()}
            seen.faults.add_rows(
                fault, each.column, first, each.rows, f"{reading.name} raises {error}" if error else ""
            )


def _collated(
    collate: Callable[[list[Any]], Any], usual: Any, odd: Any, known: Any
) -> tuple[RowFault | None, str, str]:
    for rows in ([usual, odd], [odd, usual]):
        try:
            batch = collate(rows)
        except Exception as error:  # noqa: BLE001 - whatever the collator raises is the answer
            return "collation", "", f"{type(error).__name__}: {error}".splitlines()[0][:LONGEST_ERROR]
        for one, other in zip(tensors_in(known), tensors_in(batch), strict=False):
            is_float = one.is_floating_point() or other.is_floating_point()
            if one.dtype != other.dtype and is_float and not mentions(CASTS):
                return "dtype", f"{_name(other.dtype)} instead of {_name(one.dtype)}", ""
    return None, "", ""


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")
