"""The loaders of a loop: how they make batches, and in which order."""

from __future__ import annotations

from typing import Any

from lintrain.evidence.run import LoaderUse
from lintrain.runtime.child.probe_session import ProbeSession
from lintrain.runtime.frameworks.loop.throughput import TimedSteps


class Loaders:
    """The epoch of each loader's sampler, whenever the loader was iterated."""

    def __init__(self, session: ProbeSession) -> None:
        self.timed = TimedSteps(session)
        self._epochs: dict[int, list[int]] = {}

    def on_loader_start(self, loader: Any) -> None:
        """A loader begins a round."""
        epoch = getattr(_sampler_of(loader), "epoch", None)
        if isinstance(epoch, int):
            self._epochs.setdefault(id(loader), []).append(epoch)

    def use_of(self, loader: Any) -> LoaderUse | None:
        """What is known of a loader; None if the loop has none."""
        if loader is None:
            return None
        return LoaderUse(
            batches=_length(loader),
            batch_size=getattr(loader, "batch_size", None),
            drops_last=bool(getattr(loader, "drop_last", False)),
            sampler=type(_sampler_of(loader)).__name__,
            epochs_told=tuple(self._epochs.get(id(loader), ())),
        )


def _sampler_of(loader: Any) -> Any:
    batches = getattr(loader, "batch_sampler", None)
    sampler = getattr(loader, "sampler", None)
    return sampler if batches is None else getattr(batches, "sampler", sampler)  # that of a stream has no length


def _length(loader: Any) -> int | None:
    try:
        return len(loader)
    except TypeError:  # a loader of a stream has no length
        return None
