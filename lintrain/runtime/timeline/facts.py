"""Facts about a pass that follows the first steps, sent by name and compared in the parent.

Short texts that stand for tensors and random states: equal where every byte is.
"""

from __future__ import annotations

import ctypes
import random
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, TypedDict

from lintrain.runtime.child.library import library, loaded
from lintrain.runtime.measure.seen import tensors_in


class ScheduleFacts(TypedDict):
    """A learning-rate schedule between two optimizer steps; `length` is its number of steps, where it has an end."""

    name: str
    steps_per_update: int
    length: int | None


class TimelineFacts(TypedDict, total=False):
    """Any of these at a time; a later value replaces an earlier one.

    `framework` is the library that runs the loop; `checkpoint` the path of what was saved; `stopped` why the pass was
    ended early, `failure` the error that ended it. `done`: every step was sent; `left`: the script ended without one.
    Of a rank: `batches`, `batch_size` and `dataset_rows` of its training loader, `dataset` a digest of some of its
    rows, `contents` one of each of more rows, `joined` the number of processes, `keeps_apart` the class that lets their
    weights differ, `batch_norms` the layers that normalize with its rows alone.
    """

    framework: str
    resume_is_asked: bool
    checkpoint: str
    rounds: int
    stopped: str
    done: bool
    left: bool
    failure: str
    batches: int | None
    dataset_rows: int | None
    batch_size: int | None
    dataset: str | None
    contents: Sequence[str]
    batch_norms: int
    joined: int
    keeps_apart: str
    schedules: Sequence[ScheduleFacts]


def digest(tensor: Any) -> str:
    """Of the bytes of a tensor; of its shape where it has none that can be read (sparse, sharded, on no device)."""
    try:
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        size = flat.numel() * flat.element_size()
        held = (ctypes.c_ubyte * size).from_address(flat.data_ptr()) if size else b""
    except (RuntimeError, NotImplementedError, TypeError):
        return f"{type(tensor).__name__} {list(tensor.shape)}"
    return f"{zlib.crc32(held):08x}"


def digest_of_all(values: Iterable[Any]) -> str:
    """Of the tensors in some arguments, in their order; "" for no tensor."""
    each = [f"{list(tensor.shape)}{digest(tensor)}" for tensor in tensors_in(list(values))]
    return f"{zlib.crc32(' '.join(each).encode()):08x}" if each else ""


def generators() -> dict[str, str]:
    """The states of the random generators that the script can draw from on the CPU."""
    states: dict[str, object] = {"Python": random.getstate()}
    if (numpy := loaded("numpy.random")) is not None:
        states["NumPy"] = [str(part) for part in (numpy.get_state()[1].tolist(), *numpy.get_state()[2:])]
    found = {name: f"{zlib.crc32(repr(state).encode()):08x}" for name, state in states.items()}
    return {**found, "torch": digest(library("torch").get_rng_state())}
