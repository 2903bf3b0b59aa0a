"""A search led by the branches that the reader takes: `python -m tests.fuzz.led [options of libFuzzer] [CORPUS]`.

Needs atheris, which is no part of the test environment. Bytes that start with `#` are a script, others choose how one
grows; a fault ends the search and leaves its bytes beside.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pkgutil import walk_packages
from random import Random

import atheris  # type: ignore[import-untyped,import-not-found,unused-ignore]

LED_BY = ("lintrain.pipeline", "lintrain.source", "lintrain.check", "lintrain.fix")

with atheris.instrument_imports(include=list(LED_BY)):
    # All at once: what is first imported while it searches would be read without its branches being seen.
    for name in LED_BY:
        package = import_module(name)
        for module in walk_packages(package.__path__, f"{name}."):
            import_module(module.name)
    from tests.fuzz.inputs import Input, grown
    from tests.fuzz.trial import tried


class FaultError(Exception):
    """A fault of lintrain."""


class Chosen(Random):
    """A generator of numbers that are the bytes of an input, so that like bytes make like scripts; then of any."""

    def __new__(cls, _raw: bytes) -> Chosen:
        """Random itself would take the bytes for a seed."""
        return super().__new__(cls)

    def __init__(self, raw: bytes) -> None:
        super().__init__(0)
        self._left = raw

    def getrandbits(self, k: int) -> int:
        """See `random.getrandbits`."""
        count = (k + 7) // 8
        taken, self._left = self._left[:count], self._left[count:]
        return int.from_bytes(taken, "big") % (1 << k) if taken else super().getrandbits(k)

    def random(self) -> float:
        """See `random.random`."""
        return self.getrandbits(16) / 2**16


def one(raw: bytes) -> None:
    """Try one input; raises FaultError."""
    if raw[:1] == b"#":
        given = Input("train.py", b"import torch, transformers, datasets\n" + raw)
    else:
        given = Input("train.py", grown(Chosen(raw)).encode("utf-8", "surrogatepass"))
    faults = tried(given, form=len(raw)).faults
    if faults:
        raise FaultError(f"{faults}\n{given.raw.decode(errors='replace')}")


if __name__ == "__main__":
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()
