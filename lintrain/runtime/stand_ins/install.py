"""All stand-ins of a probe with `--stand-ins`, put in place before the script's first line."""

from __future__ import annotations

from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.probe_session import ProbeSession
from lintrain.runtime.stand_ins import (
    arguments,
    array_files,
    batches,
    datasets,
    devices,
    diffusion,
    downloads,
    empty_loaders,
    files,
    folders,
    hub,
    metrics,
    older_names,
    packages,
    settings,
    streams,
    vision,
    weights,
    word_tools,
)
from lintrain.runtime.stand_ins.haste import Watchdog
from lintrain.runtime.stand_ins.ledger import Ledger


def install(session: ProbeSession, hooks: AfterImport) -> None:
    """Register every hook; a GPU is replaced only in a pass that has none."""
    ledger = Ledger(session)
    session.corrects = ledger.corrections.correct
    Watchdog(session, ledger.corrections)
    hub.install(ledger, hooks)
    datasets.install(ledger, hooks)
    metrics.install(ledger, hooks)
    vision.install(ledger, hooks)
    diffusion.install(ledger, hooks)
    weights.install(ledger, hooks)
    word_tools.install(ledger, hooks)
    settings.install(ledger, hooks)
    batches.install(ledger, hooks)
    empty_loaders.install(ledger, hooks)
    arrays = array_files.install(ledger, hooks)
    files.install(ledger, hooks, folders.install(ledger, hooks), arrays)
    downloads.install(ledger, hooks)
    packages.install(ledger)
    arguments.install(ledger, hooks)
    older_names.install(ledger, hooks)
    if session.device == "cpu":
        devices.install(ledger, hooks)
        streams.install(hooks)
