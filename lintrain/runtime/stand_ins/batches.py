"""Batches that take too long on this machine: after a slow one, the following have fewer rows."""

from __future__ import annotations

import functools
import time
from typing import Any

from lintrain.evidence.run import StandInKind
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.library import is_row
from lintrain.runtime.stand_ins.ledger import Ledger

FEW = 8
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
        made = fetch(self, index[:FEW] if is_slow and rows > FEW else index)
        last["rows"], last["at"] = rows, time.process_time()
        return made

    owner.fetch = fetching
