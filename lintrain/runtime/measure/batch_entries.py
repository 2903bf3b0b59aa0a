"""A batch as names and values: its rows, its labels and its token ids, whatever form a script gives it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lintrain.runtime.child.library import attribute, has, is_mapping, is_row, library
from lintrain.runtime.measure.row_entries import plain
from lintrain.runtime.measure.row_values import LABEL_NAMES

TARGETS = (*LABEL_NAMES, "y", "target", "targets")
TOKEN_IDS = "input_ids"
ANSWER_ENDS = ("start_positions", "end_positions")


def named(batch: Any) -> dict[str, Any]:
    """The entries of a batch by name; those inside of a dictionary or a pair follow its name after a dot."""
    # A list of dictionaries with the same keys is a batch that nothing has collated.
    if is_row(batch) and batch and all(is_mapping(row) for row in batch) and len({*map(tuple, batch)}) == 1:
        return {str(name): [row[name] for row in batch] for name in batch[0]}
    return {name: value for name, value in _named("", batch) if value is not None}


def _named(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    start = f"{name}." if name else ""
    if is_mapping(value):
        for key, part in value.items():
            yield from _named(f"{start}{key}", part)
    elif is_row(value) and any(has(part, "shape") or is_mapping(part) for part in value):
        names: Sequence[str] = attribute(value, "_fields", [str(position) for position in range(len(value))])
        for key, part in zip(names, value, strict=True):
            yield from _named(f"{start}{key}", part)
    else:
        yield name or "0", value


def last_name(name: str) -> str:
    """The name of an entry without those around it."""
    return name.rpartition(".")[2]


class Batch:
    """One batch: its entries by name, as many rows as most of them have, its labels and its token ids."""

    def __init__(self, batch: Any, label_inputs: tuple[str, ...]) -> None:
        self.entries = named(batch)
        ids = next(
            (value for name, value in self.entries.items() if last_name(name) == TOKEN_IDS and length_of(value)), None
        )
        sized = [length for value in self.entries.values() if (length := length_of(value))]
        # Most entries have one entry for each row; a table of weights in the batch has another length.
        self.rows = length_of(ids) or (max(sized, key=sized.count) if sized else 0)
        self.label = _label_name(self.entries, label_inputs)
        self.targets: Any = array_of(self.entries[self.label], self.rows) if self.label else None
        # Pictures that are to be made, and boxes: they are shown like the inputs.
        if self.targets is not None and self.targets.ndim > 2 and self.targets.dtype.kind == "f":
            self.label, self.targets = "", None
        self.ids: Any = plain(ids) if attribute(ids, "ndim", 0) == 2 else None

    def row(self, name: str, row: int) -> Any:
        """One row of an entry as an array, a text or whatever it holds; None if it has none for each row."""
        value = self.entries[name]
        return plain(value[row]) if length_of(value) == self.rows else None

    def compared_with(self, target: Any) -> Any:
        """What outputs are compared with: the labels, unless a loss gets other numbers as its target."""
        targets = self.targets
        if targets is None or target is None:
            return targets
        given = plain(target)
        is_other = given is not None and given.dtype.kind == "f" and given.size != targets.size
        return array_of(given, self.rows) if is_other else targets

    def beside(self, name: str, of: str) -> str:
        """The name of the entry that belongs to some ids: `chosen_attention_mask` of `chosen_input_ids`."""
        return f"{name.removesuffix(TOKEN_IDS)}{of}"


def length_of(value: Any) -> int:
    """The rows of an entry; 0 for a number or a text."""
    if has(value, "shape"):
        return int(value.shape[0]) if len(value.shape) else 0
    return len(value) if is_row(value) else 0


def _label_name(entries: Mapping[str, Any], label_inputs: tuple[str, ...]) -> str:
    by_last = {last_name(name): name for name in entries}
    found = next(
        (by_last[name] for name in (*label_inputs, *TARGETS) if name in by_last and name not in ANSWER_ENDS), ""
    )
    # A pair, as most data sets of torch give it: what the model reads, and the label.
    is_pair = {name.partition(".")[0] for name in entries} == {"0", "1"} and "1" in entries
    return "1" if not found and is_pair else found


def array_of(value: Any, rows: int) -> Any:
    """Labels as an array of numbers with an entry for each row, a last axis of one left out; else None."""
    array = plain(value)
    if not has(array, "dtype"):
        is_plain = is_row(value) and all(isinstance(each, int | float) for each in value)
        array = library("numpy").asarray(value) if is_plain else None
    if array is None or array.dtype.kind not in "fiub" or array.ndim == 0 or array.shape[0] != rows:
        return None
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array


def is_text(value: Any) -> bool:
    """Whether a value is a text or the turns of a chat."""
    return isinstance(value, str) or (
        is_row(value) and bool(value) and all(is_mapping(turn) and "content" in turn for turn in value)
    )


def as_text(value: Any) -> str:
    """A text, or the turns of a chat one after the other."""
    if isinstance(value, str):
        return value
    return "\n".join(f"{turn.get('role', '')}: {turn['content']}" for turn in value)
