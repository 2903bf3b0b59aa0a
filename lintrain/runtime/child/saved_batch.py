"""A batch kept in a file: tensors, numbers and texts alone, so that it is read without running anything.

The numbers of its rows in their data set, where the loader's sampler gives them.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from lintrain.runtime.child.library import attribute, has, is_mapping, is_row, library
from lintrain.startup.lazy_dataclass import dataclass

FORMAT = "lintrain batch 1"
MOST_BYTES = 64 * 2**20
"""Larger batches are not written."""

SET_BY_LIBRARIES = frozenset({"num_items_in_batch"})
"""Arguments of a model that belong to no row."""

ROW_NAMES = ("index", "indices", "idx", "row", "rows")
"""Entries of a batch that number its rows."""


class NotABatchError(ValueError):
    """A file that holds no batch; the text says why."""


@dataclass(frozen=True, slots=True)
class SavedBatch:
    """A batch, the numbers of its rows in the data set if they are known, and the step and loss it was kept for."""

    batch: Any
    rows: tuple[int, ...] | None = None
    step: int | None = None
    loss: float | None = None


def bytes_of_batch(batch: Any) -> int:
    """The size of a batch's tensors."""
    if is_mapping(batch):
        return sum(bytes_of_batch(each) for each in batch.values())
    if is_row(batch):
        return sum(bytes_of_batch(each) for each in batch)
    return int(batch.nbytes) if has(batch, "nbytes") and has(batch, "detach") else 0


def size_of(batch: Any) -> int:
    """The rows of a batch: the length of its first tensor; 0 if it has none."""
    values = batch.values() if is_mapping(batch) else batch if is_row(batch) else (batch,)
    return next((int(value.shape[0]) for value in values if attribute(value, "ndim", 0)), 0)


def rows_in(batch: Any) -> tuple[int, ...] | None:
    """The row numbers that a batch itself holds; None if it holds none."""
    for name in ROW_NAMES if is_mapping(batch) else ():
        found: Any = batch.get(name)
        if attribute(found, "ndim", 0) == 1 and not found.is_floating_point():
            return tuple(int(each) for each in found.tolist())
    return None


def save_batch(path: str, saved: SavedBatch) -> str:
    """Write a batch, or return why it was not written."""
    if bytes_of_batch(saved.batch) > MOST_BYTES:
        return f"it has more than {MOST_BYTES // 2**20} MiB"
    content = {
        "format": FORMAT,
        "batch": _plain(saved.batch),
        "rows": None if saved.rows is None else list(saved.rows),
        "step": saved.step,
        "loss": saved.loss,
    }
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        library("torch").save(content, path)
    except (OSError, RuntimeError) as error:
        return str(error)
    return ""


def _plain(value: Any) -> Any:
    """Tensors on the CPU, numbers, texts, and dictionaries, lists and tuples of them; other objects are left out."""
    if isinstance(value, library("torch").Tensor):
        return value.detach().to("cpu").clone()  # a view would bring its whole storage
    if is_mapping(value):
        # A dropped entry and an entry that is None differ: a model may require the argument, so a
        # None of the batch is kept.
        kept = {str(name): _plain(each) for name, each in value.items() if name not in SET_BY_LIBRARIES}
        return {name: each for name, each in kept.items() if each is not None or value[name] is None}
    if is_row(value):
        return [_plain(each) for each in value] if isinstance(value, list) else tuple(map(_plain, value))
    return value if isinstance(value, bool | int | float | str) else None


def load_batch(path: str) -> SavedBatch:
    """Read a batch; raises NotABatchError for any other file."""
    try:
        content: Any = library("torch").load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a file of any content: torch raises what its parts raise
        raise NotABatchError(f"{path}: cannot be read as tensors: {type(error).__name__}") from error
    # Any file that `weights_only` accepts gets this far, a checkpoint for example.
    if not is_mapping(content) or content.get("format") != FORMAT:
        raise NotABatchError(f"{path}: not a batch that lintrain saved")
    rows: Any = content["rows"]
    return SavedBatch(content["batch"], None if rows is None else tuple(rows), content["step"], content["loss"])


class GivenBatch:
    """The batch of a file that takes the place of the first one of training; `path` is "" for none."""

    def __init__(self, path: str, note: Callable[[str], None]) -> None:
        self.path, self._note = path, note
        self._saved: SavedBatch | None = None
        self._is_used = False

    def instead_of(self, batch: Any) -> Any:
        """The batch to use: that of the file once, if it has the form of the one given."""
        # Once: the second batch has to be the script's, or the step would see the same rows twice and the
        # loss would fall for that.
        if not self.path or self._is_used:
            return batch
        try:
            self._saved = self._saved or load_batch(self.path)
        except NotABatchError as error:
            self._note(f"the batch was not used: {error}")
            self.path = ""
            return batch
        fitting = _in_form_of(batch, self._saved.batch)
        # Not marked as used: a script may have a loader of another form first, and the batch waits for the right one.
        if fitting is None:
            self._note(f"{self.path}: {_form(self._saved.batch)}, and the script's batch is {_form(batch)}")
            return batch
        self._is_used = True
        self._note(f"the first batch is that of {self.path}{self._origin(self._saved)}")
        return fitting

    def conclude(self) -> None:
        """The run is over: note a batch that no loader could give."""
        if self.path and not self._is_used:
            self._note(f"{self.path} was not measured: no training loader gave a batch of its form")

    @staticmethod
    def _origin(saved: SavedBatch) -> str:
        step = "" if saved.step is None else f", kept at step {saved.step:,}"
        rows = ", ".join(map(str, saved.rows or ()))
        return step + (f"; its rows are {rows} of the data set" if rows else "")


def _form(batch: Any) -> str:
    """What a batch is made of, in words."""
    if is_mapping(batch):
        return f"a dictionary of {', '.join(map(str, batch))}"
    return f"{type(batch).__name__} of {len(batch)}" if is_row(batch) else type(batch).__name__


def _in_form_of(batch: Any, saved: Any) -> Any:
    """A saved batch in the types of another one: entries by name or in their order; None if it has another form."""
    if is_mapping(batch) and is_mapping(saved):
        # The saved batch may have fewer entries than the script's, since those that hold no tensor
        # or number were left out.
        fits = bool(saved) and all(name in batch and _is_alike(batch[name], saved[name]) for name in saved)
        return _as_type(type(batch), dict(saved)) if fits else None
    if is_row(batch) and (is_mapping(saved) or is_row(saved)):
        values: list[Any] = list(saved.values()) if is_mapping(saved) else list(saved)
        fits = len(values) == len(batch) and all(map(_is_alike, batch, values))
        return _as_type(type(batch), values) if fits else None
    return saved if _is_alike(batch, saved) and has(saved, "ndim") else None


def _is_alike(one: Any, other: Any) -> bool:
    # The number of axes and not their lengths: the saved batch may be longer or padded further, which is
    # often why it was saved.
    return bool(attribute(one, "ndim", None) == attribute(other, "ndim", None))


def _as_type(kind: type[Any], value: Any) -> Any:
    plain: tuple[Any, ...] = (dict, list, tuple)
    if kind in plain:
        return kind(value)
    try:
        # A named tuple takes its parts one by one; `BatchEncoding` and `UserDict` take the dictionary.
        return kind(*value) if has(kind, "_fields") else kind(value)
    except TypeError:
        return value


class RowNumbers:
    """Notes which rows a loader's batch sampler names, without changing them; `batches` wait to be taken."""

    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler
        self.batches: deque[tuple[int, ...]] = deque(maxlen=1_024)

    def __iter__(self) -> Iterator[Any]:
        # A new pass over the sampler: rows that a worker prefetched in the last one were never delivered.
        self.batches.clear()
        for numbers in self.sampler:
            self.batches.append(_whole(numbers))
            yield numbers

    def __len__(self) -> int:
        return len(self.sampler)

    # accelerate reads `batch_size` and `drop_last` of a batch sampler, and scripts call `set_epoch`.
    def __getattr__(self, name: str) -> Any:
        return getattr(self.sampler, name)

    def take(self, size: int) -> tuple[int, ...] | None:
        """The rows of the next batch, if there are so many of them."""
        numbers = self.batches.popleft() if self.batches else ()
        return numbers if numbers and len(numbers) == size else None


def _whole(numbers: Iterable[Any]) -> tuple[int, ...]:
    found = tuple(numbers)
    return found if all(isinstance(each, int) for each in found) else ()


def number_rows(loader: Any) -> RowNumbers | None:
    """Note the rows of a loader that is not yet iterated; None where it has no batch sampler."""
    loader = _inner(loader)
    sampler = attribute(loader, "batch_sampler", None)
    # Not a loader of torch: a class of the script's own may use a `batch_sampler` in its own way.
    if sampler is None or not has(loader, "_index_sampler"):
        return None
    numbers = RowNumbers(sampler)
    object.__setattr__(loader, "batch_sampler", numbers)  # the loader's own `__setattr__` forbids a new sampler
    return numbers


def stop_numbering(loader: Any, numbers: RowNumbers) -> None:
    """Give the loader its own sampler back."""
    loader = _inner(loader)
    if attribute(loader, "batch_sampler", None) is numbers:
        object.__setattr__(loader, "batch_sampler", numbers.sampler)


def _inner(loader: Any) -> Any:
    """The loader that accelerate's own one iterates."""
    return attribute(loader, "base_dataloader", loader)
