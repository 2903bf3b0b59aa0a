"""Which parts of a batch go through a function that finds or fills NaN, in the iteration that a run has seen.

A script that fills one column says nothing about another one, and a test of the loss says nothing about the data.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from lintrain.runtime.child.frames import callers_frame
from lintrain.runtime.child.library import attribute, is_mapping, is_row, library
from lintrain.runtime.measure.objects.statements import mentions
from lintrain.startup.lazy_dataclass import dataclass

FILLING = (
    "isfinite", "isinf", "isnan", "masked_fill", "masked_fill_", "nan_to_num", "nan_to_num_", "nanmean", "nansum",
)  # fmt: skip
MISSING = r"nan_to_num|isnan|isfinite|isinf|nanmean|nansum|isna\b|notna\b|fillna|imput|masked_fill|Masking\("
"""What a script says that knows of missing values."""
MOST_CALLS = 256
PRINTS = "_tensor_str.py"
"""The file of torch that asks which numbers are finite in order to print them."""

Note = Callable[[Any], None]


@dataclass(frozen=True)
class Given:
    """The memory and the shape of a tensor that such a function was called with."""

    memory: int
    shape: tuple[int, ...]


def given_of(tensor: Any) -> Given:
    """A tensor as it is remembered: without keeping it, or its graph, alive."""
    return Given(tensor.untyped_storage().data_ptr(), tuple(tensor.shape))


def hook_filling(note: Note, torch: Any) -> None:
    """Note the tensors that functions and methods of torch look for NaN in, or take them out of."""
    for owner in (torch, torch.Tensor):
        for name in FILLING:
            function = attribute(owner, name, None)
            if function is not None:
                setattr(owner, name, _watched(note, function))


def _watched(note: Note, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def watched(*args: Any, **kwargs: Any) -> Any:
        tensor = args[0] if args else kwargs.get("input")
        if attribute(tensor, "layout", None) is library("torch").strided:
            caller = callers_frame(above=1)
            if caller is not None and not caller.f_code.co_filename.endswith(PRINTS):
                note(tensor)
        return function(*args, **kwargs)

    return watched


class Filled:
    """Answers for one iteration: what it was called with, and the batch that it got. None: no iteration was seen."""

    def __init__(self, iteration: Any) -> None:
        seen = iteration if iteration is not None and iteration.forwards else None
        self._calls: list[Given] | None = list(seen.filled) if seen is not None else None
        self._batch = _parts_of(seen.batch) if seen is not None else {}

    def reaches(self, column: str, entry: Any) -> bool:
        """Whether the script finds or fills NaN in a column, of which `entry` is a row's; in doubt it does."""
        if self._calls is None or not mentions(MISSING):
            return self._calls is None and mentions(MISSING)
        part = self._batch.get(column)
        if part is not None:
            # A copy of a column has its shape and other memory, and so has another column of that shape.
            of_others = {each.memory for name, each in self._batch.items() if name != column}
            return any(
                each.memory == part.memory or (each.shape == part.shape and each.memory not in of_others)
                for each in self._calls
            )
        shape = attribute(entry, "shape", None)
        return bool(self._calls) if shape is None else any(each.shape[1:] == tuple(shape) for each in self._calls)


def _parts_of(batch: Any) -> dict[str, Given]:
    """The tensors of a batch by their key or position."""
    parts: dict[str, Any] = {}
    if is_mapping(batch):
        parts = {str(name): value for name, value in batch.items()}
    elif is_row(batch):
        parts = {str(position): value for position, value in enumerate(batch)}
    elif batch is not None:
        parts = {"0": batch}
    strided = library("torch").strided
    return {name: given_of(each) for name, each in parts.items() if attribute(each, "layout", None) is strided}


NOTHING_SEEN = Filled(None)
