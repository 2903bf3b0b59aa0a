"""Batches that take too long on this machine: after a slow one, the following have fewer rows."""

from __future__ import annotations

import functools
import time
from contextlib import suppress
from typing import Any

from lintrain.evidence.run import StandInKind
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.library import is_row
from lintrain.runtime.stand_ins.ledger import Ledger

FEW = 8
MOST_NUMBERS = 4_000_000
"""Of a first batch: 26 images of 224 pixels. One of 128 may take minutes without a GPU, in which no other comes."""
OF_TOKEN = 128
"""A token of a text takes as long as so many numbers of an image: each passes through all of a model's layers."""
LONG = 3.0
"""Seconds of CPU time that a first batch may take."""
SLOW = 1.5
"""Seconds of CPU time between two batches, above which a batch is too large."""


def install(ledger: Ledger, hooks: AfterImport) -> None:
    """Watch what a loader takes from a data set for each batch."""
    hooks.add("torch.utils.data._utils.fetch", functools.partial(_cut_slow_batches, ledger))


def _cut_slow_batches(ledger: Ledger, module: Any) -> None:
    owner = module._MapDatasetFetcher
    fetch = owner.fetch
    last = {"rows": 0, "at": 0.0}
    is_slow = False

    @functools.wraps(fetch)
    def fetching(self: Any, index: Any) -> Any:
        nonlocal is_slow
        rows = len(index) if self.auto_collation and is_row(index) else 0
        took = time.process_time() - last["at"]
        if not is_slow and last["rows"] > FEW and last["at"] and took > SLOW:
            is_slow = True
            what = f"{FEW} rows from the second batch on: the first one took {took:.0f} s"
            ledger.replace(StandInKind.DATA, f"batches of {last['rows']} rows", what)
        is_first = not last["at"]
        if is_first and rows > FEW and _takes_long(ledger, self, index):
            is_slow = True
            what = f"{FEW} rows: so many take more than {LONG:.0f} s to make"
            ledger.replace(StandInKind.DATA, f"batches of {rows} rows", what)
        made = fetch(self, index[:FEW] if is_slow and rows > FEW else index)
        if is_first and not is_slow and rows > FEW and _numbers_in(made) > MOST_NUMBERS:
            is_slow = True
            ledger.replace(StandInKind.DATA, f"batches of {rows} rows", f"{FEW} rows: so much takes long without a GPU")
            made = fetch(self, index[:FEW])
        last["rows"], last["at"] = rows, time.process_time()
        return made

    owner.fetch = fetching


def _takes_long(ledger: Ledger, fetcher: Any, index: Any) -> bool:
    """Whether the rows of a first batch take long to make, by the time that its second one takes."""
    dataset = getattr(fetcher, "dataset", None)
    if dataset is None or hasattr(dataset, "__getitems__"):
        return False
    with ledger.making("rows"), suppress(Exception):  # the batch itself raises the error
        dataset[index[0]]  # what is loaded at first takes its time once
        began = time.thread_time()
        dataset[index[1]]
        return (time.thread_time() - began) * len(index) > LONG
    return False


def _numbers_in(batch: Any) -> int:
    """How many numbers the tensors of a batch have; those of texts count more."""
    values: Any = batch.values() if hasattr(batch, "values") and hasattr(batch, "keys") else batch
    if is_row(batch) or values is not batch:
        return sum(_numbers_in(each) for each in values)
    if not hasattr(batch, "numel"):
        return 0
    is_text = str(getattr(batch, "dtype", "")) == "torch.int64" and batch.dim() > 1
    return int(batch.numel()) * (OF_TOKEN if is_text else 1)
