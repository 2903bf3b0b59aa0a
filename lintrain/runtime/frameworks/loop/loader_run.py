"""A run that trains on data loaders of torch."""

from __future__ import annotations

from abc import ABC
from typing import Any

from lintrain.evidence.run import SplitEvidence
from lintrain.model.location import Location
from lintrain.runtime.child.given import Given
from lintrain.runtime.child.measured_run import MeasuredRun
from lintrain.runtime.child.probe_session import ProbeSession
from lintrain.runtime.measure.columns import measure_split


class LoaderRun(MeasuredRun, ABC):
    """`loader` is the one that is trained on, None if there is none; `limit` the norm that gradients are clipped to."""

    def __init__(self, session: ProbeSession, call: Location | None) -> None:
        super().__init__(session, call)
        self.loader: Any = None
        self.limit: float | None = None
        self._splits: list[SplitEvidence] = []

    @property
    def collator(self) -> Any:
        """The loader's `collate_fn`."""
        return getattr(self.loader, "collate_fn", None)

    @property
    def clipped_at(self) -> float | None:
        """The norm that the script clips to."""
        return self.limit

    def measure_split(self, argument: str, loader: Any) -> None:
        """Describe the data set of a loader."""
        dataset = getattr(loader, "dataset", None)
        if dataset is not None:
            self._splits.append(measure_split(self, Given(argument, dataset)))
            self.measured(splits=self._splits)
