"""A search led by the branches that the reader takes: `python -m tests.fuzz.led [options of libFuzzer] [CORPUS]`.

Needs atheris, which is no part of the test environment. Bytes that start with `#` are a script, others choose how one
grows; a fault ends the search and leaves its bytes beside.
"""

from __future__ import annotations

import sys
from random import Random

import atheris  # type: ignore[import-untyped,import-not-found,unused-ignore]

with atheris.instrument_imports(include=["lintrain.pipeline", "lintrain.source", "lintrain.check", "lintrain.fix"]):
    from tests.fuzz.inputs import Input, grown
    from tests.fuzz.trial import tried


class FaultError(Exception):
    """A fault of lintrain."""


def one(raw: bytes) -> None:
    """Try one input; raises FaultError."""
    if raw[:1] == b"#":
        given = Input("train.py", b"import torch, transformers, datasets\n" + raw)
    else:
        given = Input("train.py", grown(Random(raw)).encode("utf-8", "surrogatepass"))
    faults = tried(given, form=len(raw)).faults
    if faults:
        raise FaultError(f"{faults}\n{given.raw.decode(errors='replace')}")


if __name__ == "__main__":
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()
