"""Loaders of Lightning without a batch: it warns and trains nothing, where the rows that were made were too few."""

from __future__ import annotations

import functools
from typing import Any

from lintrain.runtime.child.going_on import NoBatchesError
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.stand_ins.ledger import Ledger


def install(ledger: Ledger, hooks: AfterImport) -> None:
    """Watch where Lightning asks a loader for its length."""
    for package in ("lightning.pytorch", "pytorch_lightning"):
        hooks.add(f"{package}.utilities.data", functools.partial(_ask_for_rows, ledger))


def _ask_for_rows(ledger: Ledger, module: Any) -> None:
    has_length = module.has_len_all_ranks

    @functools.wraps(has_length)
    def has_len_all_ranks(dataloader: Any, *args: Any, **kwargs: Any) -> Any:
        found = has_length(dataloader, *args, **kwargs)
        # With several agents or folds each gets a part of the rows, and keeps whole batches only.
        if found and ledger.session.may_start_over and ledger.corrections.may_grow and len(dataloader) == 0:
            raise NoBatchesError
        return found

    module.has_len_all_ranks = has_len_all_ranks
