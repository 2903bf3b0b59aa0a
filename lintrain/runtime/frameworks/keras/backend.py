"""What a backend of Keras does in its own way: one function for each stage of a training step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lintrain.evidence.run import ModelEvidence
from lintrain.runtime.frameworks.keras.keras_run import KerasRun
from lintrain.startup.lazy_dataclass import dataclass

Measure = Callable[[Any], None]  # Any: the backend's own kind of run


@dataclass(frozen=True)
class Backend:
    """The stages of one backend, the kind of run that they work on, and the device that it computes on."""

    run: type[KerasRun]
    take_batches: Measure
    measure_forward: Measure
    measure_model: Callable[[Any], ModelEvidence]
    measure_backward: Measure
    take_two_steps: Measure
    device: Callable[[], str]
