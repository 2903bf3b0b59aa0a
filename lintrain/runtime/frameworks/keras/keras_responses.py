"""A Keras model asked again on its first batch."""

from __future__ import annotations

from typing import Any

from lintrain.runtime.frameworks.keras.keras_run import KerasRun
from lintrain.runtime.measure.calls import Call
from lintrain.runtime.measure.responses import Responses


class Asked:
    """The model as something that is called in inference mode; Keras keeps its state by itself."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def __call__(self, x: Any) -> Any:
        """Its answers, with dropout off."""
        return self._model(x, training=False)

    def forward(self, x: Any) -> Any:
        """What torch would call."""
        return self(x)

    def modules(self) -> list[Any]:
        """None whose mode has to be set."""
        return []

    def named_modules(self) -> list[tuple[str, Any]]:
        """None."""
        return []

    def buffers(self) -> list[Any]:
        """None."""
        return []


def responses_of(run: KerasRun) -> Responses:
    """Questions about the first batch: its inputs alone."""
    x, _, _ = run.parts(run.batches[0])
    return Responses(run, Call(Asked(run.keras), (x,), {}), None)
