"""The evaluation of a loop or of Lightning while it runs: its batches, its passes, its losses and its metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from lintrain.evidence.run import EvaluationEvidence
from lintrain.runtime.child.given import Given
from lintrain.runtime.frameworks.loop.loader_run import LoaderRun
from lintrain.runtime.frameworks.loop.loop_state import LoopState
from lintrain.runtime.frameworks.loop.metrics import MetricUses
from lintrain.runtime.measure.batch import describe
from lintrain.runtime.measure.metric_arrays import numbers_in
from lintrain.runtime.measure.overlap import shared_rows
from lintrain.runtime.measure.seen import tensors_in


class FollowedEvaluation:
    """What was measured of it so far; `values` are the numbers that a library logged in it, by name."""

    def __init__(self, run: LoaderRun, state: LoopState, metrics: MetricUses) -> None:
        self._run, self._state, self._metrics = run, state, metrics
        self.batches = self.rows = 0
        self._is_described = False
        self.values: dict[str, float] = {}

    @property
    def is_seen(self) -> bool:
        """Whether anything of it was seen: a batch of another loader, a pass of the model, a metric after the
        training.
        """
        is_judged = any(not use.is_training for use in self._metrics.every)
        return bool(self.batches or self._state.passes.counts["evaluated"]) or is_judged

    def on_batch(self, loader: Any, batch: Any) -> None:
        """A loader other than that of the training gave a batch; the first one is described, and its data."""
        with self._state.paused():
            self.batches += 1
            self.rows += rows_in(batch)
            if not self._is_described:
                self._is_described = True
                self._describe(loader, batch)

    def restart(self) -> None:
        """A library evaluates again: only the last pass is reported."""
        self.batches = self.rows = 0

    def on_logged(self, values: Mapping[str, Any], before: Mapping[str, Any]) -> None:
        """The numbers that a library holds after it; those from before do not belong to it."""
        fresh = {name: value for name, value in values.items() if name not in before or value is not before[name]}
        self.values.update(numbers_in(fresh))

    def _describe(self, loader: Any, batch: Any) -> None:
        run = self._run
        run.measure_split("eval_dataset", loader)
        train, held_out = getattr(run.loader, "dataset", None), getattr(loader, "dataset", None)
        if train is not None and held_out is not None:
            given = [Given("train_dataset", train), Given("eval_dataset", held_out)]
            run.measured(shared_rows=shared_rows(given))
        run.batch_evidence.append(describe(run, "eval_dataset", [batch]))
        run.measured(batches=run.batch_evidence)

    def evidence(self) -> EvaluationEvidence | None:
        """All of it; None if neither an evaluation nor a metric was seen."""
        passes, uses = self._state.passes, self._metrics.every
        if not self.is_seen and not uses:
            return None
        counts = passes.counts
        values = {**self.values, **{name: value for use in uses if not use.is_training for name, value in _named(use)}}
        return EvaluationEvidence(
            wanted=self.is_seen,
            has_metric_function=False,
            is_followed=True,
            rows=self.rows,
            batches=self.batches,
            passes=counts["evaluated"],
            passes_in_training_mode=counts["evaluated_in_train_mode"],
            recorded_passes=counts["recorded_for_nothing"],
            losses=tuple(passes.evaluated_losses),
            predictions_shape=passes.evaluated_shape,
            metric_uses=uses,
            metrics=dict(values),
            non_finite=tuple(name for name, value in values.items() if not math.isfinite(value)),
        )


def _named(use: Any) -> list[tuple[str, float]]:
    return [(name or use.function, value) for name, value in use.values.items()]


def rows_in(batch: Any) -> int:
    """The rows of the first tensor of a batch; 0 if there is none."""
    return next((int(tensor.shape[0]) for tensor in tensors_in(batch) if len(tensor.shape)), 0)
