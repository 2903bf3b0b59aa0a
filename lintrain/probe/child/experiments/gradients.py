"""The backward stage: gradients by layer group, over several batches."""

from __future__ import annotations

import math
import re
import time
from typing import Any

from lintrain.core.evidence import BackwardEvidence, LayerGradient
from lintrain.probe.child.experiments.forward import forward_evidence, number, recording, training_step
from lintrain.probe.child.run import Run

SECONDS = 20.0
"""More batches are taken only while they are expected to end within this time."""


class Gradients:
    """Norms by parameter and batch; None where the parameter had no gradient."""

    def __init__(self, run: Run) -> None:
        self.parameters: dict[str, Any] = {
            name: parameter for name, parameter in run.trainer.model.named_parameters() if parameter.requires_grad
        }
        self.norms: dict[str, list[float | None]] = {name: [] for name in self.parameters}

    def read(self, scale: float) -> None:
        """Add the gradients of one batch, divided by the scale of mixed precision, and clear them."""
        for name, parameter in self.parameters.items():
            gradient = parameter.grad
            self.norms[name].append(None if gradient is None else float(gradient.detach().float().norm()) / scale)
            parameter.grad = None


def measure_gradients(run: Run) -> None:
    """The waiting backward pass of the first batch, then whole steps on the others."""
    gradients = Gradients(run)
    started = time.perf_counter()
    for loss, kwargs in run.waiting:
        run.trainer.accelerator.backward(loss, **kwargs)
    run.waiting = []
    gradients.read(_scale(run))
    run.measured(backward=_evidence(run, gradients))
    each = time.perf_counter() - started
    for done, batch in enumerate(run.batches[1:], start=1):
        run.progress("backward", done, len(run.batches))
        if (done + 1) * each * 3 > SECONDS:
            run.session.shorten(f"gradients on {done} of {len(run.batches)} batches: a pass takes {each:.1f} s")
            break
        _whole_step(run, batch)
        gradients.read(_scale(run))
    run.measured(forward=forward_evidence(run), backward=_evidence(run, gradients))


def _whole_step(run: Run, batch: Any) -> None:
    with recording(run) as recorder:
        returned = training_step(run, batch)
    run.losses.append(number(recorder.losses[-1] if recorder.losses else returned))


def _scale(run: Run) -> float:
    scaler = getattr(run.trainer.accelerator, "scaler", None)
    return float(scaler.get_scale()) if scaler is not None else 1.0


def layer_of(name: str) -> str:
    """The layer group of a parameter: its path up to the first layer number, else without its last two parts."""
    numbered = re.match(r"(?:.*?\.)?\w+\.\d+(?=\.)", name)
    if numbered:
        return numbered.group(0)
    parts = name.split(".")
    return ".".join(parts[: max(1, min(2, len(parts) - 1))])


def _evidence(run: Run, gradients: Gradients) -> BackwardEvidence:
    groups: dict[str, list[str]] = {}
    for name in gradients.norms:
        groups.setdefault(layer_of(name), []).append(name)
    norms = tuple(_joined(gradients.norms.values(), batch) for batch in range(_batches(gradients)))
    limit = run.trainer.args.max_grad_norm
    return BackwardEvidence(
        layers=tuple(_layer(gradients, layer, names) for layer, names in groups.items()),
        norms=norms,
        finite=all(math.isfinite(norm) for norm in norms),
        clipped_at=float(limit) if limit else None,
    )


def _batches(gradients: Gradients) -> int:
    return max((len(norms) for norms in gradients.norms.values()), default=0)


def _joined(rows: Any, batch: int) -> float:
    return math.sqrt(sum((norms[batch] or 0.0) ** 2 for norms in rows))


def _layer(gradients: Gradients, layer: str, names: list[str]) -> LayerGradient:
    rows = [gradients.norms[name] for name in names]
    weights = [float(gradients.parameters[name].detach().float().norm()) for name in names]
    return LayerGradient(
        layer=layer,
        norms=tuple(_joined(rows, batch) for batch in range(_batches(gradients))),
        weight_norm=math.sqrt(sum(weight**2 for weight in weights)),
        parameters=len(names),
        without_gradient=tuple(name for name in names if all(norm is None for norm in gradients.norms[name])),
    )
