"""A run of no framework: it keeps what is measured, so that experiments can be asked without a probe."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from lintrain.runtime.child.measured_run import MeasuredRun
from lintrain.runtime.child.probe_session import ProbeSession
from lintrain.runtime.child.surroundings import Thresholds


class RecordedRun(MeasuredRun):
    """`evidence` holds what was measured last, `shortcuts` what was left out."""

    def __init__(self, model: Any) -> None:
        self.shortcuts: list[str] = []
        session = SimpleNamespace(shorten=self.shortcuts.append, thresholds=Thresholds())
        super().__init__(cast("ProbeSession", session), None)
        self.evidence: dict[str, Any] = {}
        self._model = model

    @property
    def model(self) -> Any:
        return self._model

    @property
    def collator(self) -> Any:
        return None

    def measured(self, **values: Any) -> None:
        self.evidence.update(values)
