"""The script's random numbers: the state before the probe's own draws is restored."""

from __future__ import annotations

import random
from collections.abc import Generator
from contextlib import contextmanager

from lintrain.runtime.child.library import loaded


@contextmanager
def same_random_numbers() -> Generator[None]:
    """Let Python, NumPy and torch, on the GPU too, continue afterwards as if nothing had been drawn."""
    torch, numpy = loaded("torch"), loaded("numpy.random")
    python = random.getstate()
    of_torch = torch.get_rng_state() if torch is not None else None
    # Not before the script uses the GPU: asking would create a context there, with hundreds of megabytes.
    of_devices = torch.cuda.get_rng_state_all() if torch is not None and torch.cuda.is_initialized() else None
    of_numpy = numpy.get_state() if numpy is not None else None
    try:
        yield
    finally:
        random.setstate(python)
        if torch is not None:
            torch.set_rng_state(of_torch)
        if torch is not None and of_devices is not None:
            torch.cuda.set_rng_state_all(of_devices)
        if numpy is not None:
            numpy.set_state(of_numpy)
