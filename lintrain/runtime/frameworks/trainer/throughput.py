"""The throughput stage of a Trainer's run: its loader and its steps, timed one after the other."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

from lintrain.evidence.run import StageName
from lintrain.runtime.frameworks.trainer.memory import tokens_of
from lintrain.runtime.frameworks.trainer.step import one_step
from lintrain.runtime.frameworks.trainer.trainer_run import TrainerRun
from lintrain.runtime.measure.overfit import rows_of
from lintrain.runtime.measure.pace import WARM_UP, Pace, new_profile, synchronizing, top_operators
from lintrain.runtime.measure.weights import restore, snapshot

BATCHES = 6
SECONDS = 30.0


def time_steps(run: TrainerRun) -> None:
    """Whole steps on batches as they come; the weights are restored afterwards."""
    before, pace, calls = snapshot(run), Pace(), Counter[str]()
    ends = time.perf_counter() + SECONDS
    pace.on_batch_request()
    for number, batch in enumerate(islice(_batches(run), BATCHES + WARM_UP)):
        pace.on_batch()
        with synchronizing(calls):
            one_step(run, batch)
        pace.on_batch_request()
        run.progress(StageName.THROUGHPUT, number, BATCHES + WARM_UP)
        if time.perf_counter() > ends and number > WARM_UP:
            break
    # One step more, outside the timing: the profiler makes a step several times as slow.
    with new_profile() as profile:
        one_step(run, run.batches[0])
    restore(run, before)
    rows, tokens = rows_of(run.batches[0]), tokens_of(run.batches[0])
    run.measured(throughput=pace.evidence(rows, tokens, run.workers, calls, top_operators(profile)))


def _batches(run: TrainerRun) -> Iterator[Any]:
    """Those of the training loader, round after round."""
    while True:
        yield from run.trainer.get_train_dataloader()
