"""Loaders that a script makes: their rows and batches, and what worker processes would read from their copies."""

from __future__ import annotations

import functools
import time
from dataclasses import replace
from typing import Any

from lintrain.evidence.run import CopiedRows, MadeLoader
from lintrain.model.location import Location
from lintrain.runtime.child.frames import frame_location, users_frame
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.probe_session import ProbeSession
from lintrain.runtime.measure.objects.copies import generators_of, is_own, may_be_alike, read_copies
from lintrain.runtime.measure.objects.objects import MOST
from lintrain.runtime.measure.subset import number_of_rows

MOST_READ = 2
"""Loaders whose workers are tried."""


class Loaders:
    """The loaders of the script, each with the place that made it; those that workers should fill are kept."""

    def __init__(self) -> None:
        self._made: list[tuple[MadeLoader, Any]] = []

    def makes(self, loader: Any, workers: int) -> None:
        """A loader is there, which asked for so many workers."""
        location = frame_location(users_frame())
        if location is not None and len(self._made) < MOST:
            kept = loader if workers >= 2 and is_own(loader.dataset) else None
            self._made.append((_described(loader, location, workers), kept))

    def evidence(self, *, is_measured: bool) -> list[MadeLoader]:
        """All of them; workers read only where a training went through, for the data may not be complete before."""
        read, found = 0, list[MadeLoader]()
        for made, loader in self._made:
            wants = is_measured and loader is not None and read < MOST_READ and may_be_alike(loader.dataset)
            read += wants
            found.append(_with_copies(made, loader) if wants else made)
        return found


def install(session: ProbeSession, hooks: AfterImport) -> None:
    """Watch the construction of loaders."""
    loaders = Loaders()
    session.objects.add("loaders", lambda is_measured: loaders.evidence(is_measured=is_measured))
    hooks.add("torch.utils.data.dataloader", lambda module: _hook(session, loaders, module.DataLoader))


def _hook(session: ProbeSession, loaders: Loaders, loader: Any) -> None:
    build = loader.__init__

    @functools.wraps(build)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        build(self, *args, **kwargs)
        if session.is_root and not session.measuring:
            loaders.makes(self, self.num_workers)

    loader.__init__ = init


def _described(loader: Any, location: Location, workers: int) -> MadeLoader:
    return MadeLoader(
        location=location,
        rows=_length(loader.dataset),
        batches=_length(loader),
        batch_size=loader.batch_size,
        drops_last=bool(loader.drop_last),
        sampler=type(loader.sampler).__name__,
        workers=workers,
        generators=len(generators_of(loader.dataset)) if is_own(loader.dataset) else None,
    )


def _length(value: Any) -> int | None:
    try:
        return number_of_rows(value)
    except Exception:  # noqa: BLE001 - a length of the script's own; it is not known then
        return None


def _with_copies(made: MadeLoader, loader: Any) -> MadeLoader:
    started = time.perf_counter()
    read = read_copies(loader)
    if isinstance(read, CopiedRows):
        return replace(made, copies=read)
    return replace(made, reason=f"{read}, in {time.perf_counter() - started:.1f} s")
