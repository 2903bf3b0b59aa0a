"""The backward stage: gradients over several batches of the trainer."""

from __future__ import annotations

import time
from typing import Any

from lintrain.evidence.run import StageName
from lintrain.runtime.frameworks.trainer.forward import forward_evidence, recording, training_step
from lintrain.runtime.frameworks.trainer.trainer_run import TrainerRun
from lintrain.runtime.measure.gradients import Gradients, backward_evidence
from lintrain.runtime.measure.non_finite import NonFiniteSearch
from lintrain.runtime.measure.outputs import number

SECONDS = 20.0
"""More batches are taken only while they are expected to end within this time."""


def measure_gradients(run: TrainerRun) -> None:
    """The waiting backward pass of the first batch, then whole steps on the others; the last gradients stay."""
    gradients = Gradients(run)
    started = time.perf_counter()
    search = NonFiniteSearch()
    for loss, kwargs in run.waiting:
        search.watch(loss, run.model)
        run.trainer.accelerator.backward(loss, **kwargs)
    search.close()
    # Frees the graph before the next batch makes another: two graphs at a time need twice the memory of the run.
    run.waiting = []
    gradients.non_finite = search.found
    gradients.read(_scale(run), keep=True)
    run.measured(backward=backward_evidence(run, gradients))
    each = time.perf_counter() - started
    for done, batch in enumerate(run.batches[1:], start=1):
        run.progress(StageName.BACKWARD, done, len(run.batches))
        # A whole step costs about three times the waiting backward pass: forward, backward, and the loss once more.
        if (done + 1) * each * 3 > SECONDS:
            run.session.shorten(
                f"gradients were measured on {done} of {len(run.batches)} batches: one pass takes {each:.1f} s"
            )
            break
        gradients.clear()
        _whole_step(run, batch)
        gradients.read(_scale(run), keep=True)
    run.measured(forward=forward_evidence(run), backward=backward_evidence(run, gradients))


def _whole_step(run: TrainerRun, batch: Any) -> None:
    with recording(run) as recorder:
        returned = training_step(run, batch)
    run.losses.append(number(recorder.losses[-1] if recorder.losses else returned))


def _scale(run: TrainerRun) -> float:
    scaler = getattr(run.trainer.accelerator, "scaler", None)
    return float(scaler.get_scale()) if scaler is not None else 1.0
