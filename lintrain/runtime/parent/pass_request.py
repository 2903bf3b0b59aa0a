"""What the parent asks of a probed process: written to a file, read by its `sitecustomize`.

The rows to show, by their number and their order.

The measurements that a person asks for by name, because they take longer than one batch.
"""

from __future__ import annotations

import os
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path

from lintrain.startup.lazy_dataclass import dataclass

SAMPLE_ROWS = 256


@dataclass(frozen=True, slots=True)
class TimelineRequest:
    """A pass that only follows the first optimizer steps, so many of them, to be compared with another pass.

    `purpose`: `save` a checkpoint on the way, `resume` from the one at `checkpoint`, `repeat` what another start does,
    `try` a value of a setting, or do the part of one of several `ranks`. With `allows_unused` weights without a
    gradient do not end a training with DistributedDataParallel.
    """

    purpose: str
    steps: int
    checkpoint: str = ""
    allows_unused: bool = False


@dataclass(frozen=True, slots=True)
class PassRequest:
    """One pass over a script: on which device, where redirected files go, and which extras are wanted.

    `exchange` is a folder that is new with each pass, also where two of them share the folder of the script's files:
    what lintrain and the script's process exchange, and nothing that an earlier pass put there.
    `overfit` is a number of steps, 0 for none; `device_memory` the bytes of a device that somebody named; `also` names
    the extras (`extras.py`); `rows` are those to show, as [order, number]; `batch` is the file of a batch to measure
    first; `sample_rows` bounds the
    rows that `Dataset.map` works on, 0 for all; `shortcuts` were taken before the process was started; `downloads` are
    folders that libraries keep downloads in, where a probe may add to them. `compiles` says whether lintrain's own
    modules may be kept compiled. `reproduces` asks to keep what a failing stage needs to fail again. `offline` asks to
    reach no other machine; with `stand_ins` what the machine lacks is replaced, data sets by the rows of the file
    `stand_in_data` if there is one; with `takes_gpu_to_cpu` only the GPU is; `secret` marks to the kernel the
    connections that the guard watches. With a `timeline` nothing is measured but the first steps. `is_second_try` turns
    torch's anomaly detection on: the first pass ended in a backward pass. With `goes_on` the process asks after a
    failing stage what to repair, and runs the script again; with `tries_fixes` after every run.
    """

    script: str
    folder: str
    package: str
    temporary: str
    exchange: str
    device: str
    overfit: int = 0
    device_memory: int | None = None
    also: tuple[str, ...] = ()
    rows: tuple[tuple[str, int], ...] = ()
    batch: str = ""
    sample_rows: int = SAMPLE_ROWS
    batches: int = 4
    shortcuts: tuple[str, ...] = ()
    downloads: tuple[str, ...] = ()
    reproduces: bool = False
    compiles: bool = field(default_factory=lambda: not sys.dont_write_bytecode)
    timeline: TimelineRequest | None = None
    offline: bool = False
    stand_ins: bool = False
    stand_in_data: str = ""
    takes_gpu_to_cpu: bool = False
    is_second_try: bool = False
    goes_on: bool = False
    tries_fixes: bool = False
    secret: int = field(default_factory=lambda: int.from_bytes(os.urandom(8), "big") >> 1 | 1, repr=False)


def new_exchange(temporary: Path) -> Path:
    """A folder for one pass, in that of the script's files: the script's process may write there."""
    return Path(tempfile.mkdtemp(dir=temporary, prefix="pass-"))


FIRST = "first"
ORDERS = (FIRST, "longest", "shortest", "random")
SHOWN_ROWS = 3
MOST_ROWS = 1_000


class NoRowsError(ValueError):
    """What names no rows; the text says what does."""


def read_rows(words: Iterable[str]) -> tuple[tuple[str, int], ...]:
    """The rows of an option: `5`, `longest`, `random:10`; raises NoRowsError.

    A number alone is that of all orders without one; if each has its own, that many first rows are asked for too.
    """
    every = [part for word in words for part in word.replace(" ", "").split(",") if part]
    numbers = [_number(part) for part in every if part.isdigit()]
    shared = numbers[-1] if numbers else SHOWN_ROWS
    asked = [part.partition(":") for part in every if not part.isdigit()]
    orders = tuple((_order(order), _number(number) if colon else shared) for order, colon, number in asked)
    is_of_first = bool(numbers) and all(colon for _, colon, _ in asked)
    return ((FIRST, shared), *orders) if is_of_first else orders


def _order(word: str) -> str:
    if word not in ORDERS:
        raise NoRowsError(f"{word}: no such rows; a number, or {', '.join(ORDERS)}, also as `longest:5`")
    return word


def _number(word: str) -> int:
    if not word.isdigit() or not 0 < int(word) <= MOST_ROWS:
        raise NoRowsError(f"{word or 'nothing'}: the number of rows is from 1 to {MOST_ROWS}")
    return int(word)


OVERFIT_STEPS = 20
ALL = "all"
EXTRAS: Mapping[str, str] = {
    "rows": "every row of the data sets, without a bound on the time; `map` works on all rows too",
    "overfit": f"{OVERFIT_STEPS} steps on one batch of every label",
    "determinism": "the first steps of two runs of the script, and what differs between them",
    "ranks": "the first steps on two processes: their weights, rows, gradients, and which of them writes files",
    "checkpoint": "the step after a checkpoint, in the same run and in a process that resumes from it",
    "memory": "the peak memory of a training step; with --device-memory the largest batch that fits",
    "throughput": "how long batches and steps take on this machine, and which operations take longest",
}
"""What each measures, by the name of its stage, in the order in which they are executed."""


class NoExtraError(ValueError):
    """A name that is no extra's; the text says which there are."""


def read_extras(words: Iterable[str]) -> tuple[str, ...]:
    """The extras that a person named, with commas or as several words; raises NoExtraError."""
    names = {name.strip() for word in words for name in word.split(",") if name.strip()}
    if unknown := names - {*EXTRAS, ALL}:
        raise NoExtraError(f"{min(unknown)}: no such measurement; there are {', '.join(EXTRAS)}, and {ALL}")
    return tuple(name for name in EXTRAS if name in names or ALL in names)


BATCH_MARK = b"lintrain batch"
MOST_HEAD = 2**20


def is_kept_batch(file: Path) -> bool:
    """Whether a file is a batch that a watch kept, as far as its head shows without torch."""
    try:
        with zipfile.ZipFile(file) as archive:
            names = [name for name in archive.namelist() if name.endswith("/data.pkl")]
            return any(BATCH_MARK in archive.open(name).read(MOST_HEAD) for name in names)
    except (OSError, zipfile.BadZipFile):
        return False
