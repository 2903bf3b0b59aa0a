"""Short texts that stand for tensors and random states: equal where every byte is."""

from __future__ import annotations

import ctypes
import random
import zlib
from collections.abc import Iterable
from typing import Any

from lintrain.runtime.child.library import library, loaded
from lintrain.runtime.measure.seen import tensors_in


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
