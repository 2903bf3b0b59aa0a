"""Does Keras on TensorFlow go back behind a softmax that its loss would take for logits?"""

from __future__ import annotations

import math
from typing import Any

from lintrain.runtime.child.library import library
from lintrain.runtime.frameworks.tensorflow.arrays import array_of, numbers_of
from lintrain.runtime.frameworks.tensorflow.tensorflow_run import TensorFlowRun
from lintrain.runtime.frameworks.tensorflow.watching import Seen

APART = 1e-4
"""Losses that differ by more were computed from different things."""


def corrected_loss(run: TensorFlowRun, seen: Seen) -> tuple[float, float] | None:
    """The loss as Keras computes it and that of the same numbers without their history, where the two differ."""
    plain = array_of(seen.outputs)
    loss = library(f"{run.package}.losses").get(run.keras.loss) if isinstance(run.keras.loss, str) else run.keras.loss
    if plain is None or seen.targets is None or not callable(loss):
        return None
    try:
        own = _mean(loss(seen.targets, seen.outputs))
        other = _mean(loss(seen.targets, library("tensorflow").constant(plain)))
    except Exception as error:  # noqa: BLE001 - a loss may be computed in its own step only
        run.session.note(f"the corrected loss was not computed: {type(error).__name__}")
        return None
    return (own, other) if math.isfinite(own - other) and abs(own - other) > APART * max(1.0, abs(own)) else None


def _mean(loss: Any) -> float:
    values = numbers_of(loss)
    return float(values.mean()) if values is not None else math.nan
