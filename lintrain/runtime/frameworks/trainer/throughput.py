"""The throughput stage of a Trainer's run: its loader and its steps, timed one after the other."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

from lintrain.runtime.child.kinds import is_mapping
from lintrain.runtime.frameworks.trainer.memory import tokens_of
from lintrain.runtime.frameworks.trainer.run import TrainerRun
from lintrain.runtime.frameworks.trainer.step import one_step
from lintrain.runtime.measure.overfit import rows_of
from lintrain.runtime.measure.pace import WARM_UP, Pace, new_profile, synchronizing, top_operators
from lintrain.runtime.measure.weights import restore, snapshot

BATCHES = 6
SECONDS = 30.0


def time_steps(run: TrainerRun) -> None:
    """Whole steps on batches as they come; the weights are those of before afterwards."""
    if "throughput" not in run.session.also:
        return
    if not run.passed("step"):
        run.skip("throughput", "training does not get as far as one step")
    elif run.batches and not is_mapping(run.batches[0]):
        run.skip("throughput", "the trainer makes its rows anew at every step")
    else:
        run.attempt("throughput", lambda: _time(run))


def _time(run: TrainerRun) -> None:
    before, pace, calls = snapshot(run), Pace(), Counter[str]()
    ends = time.perf_counter() + SECONDS
    pace.asks()
    for number, batch in enumerate(islice(_batches(run), BATCHES + WARM_UP)):
        pace.got()
        with synchronizing(calls):
            one_step(run, batch)
        pace.asks()
        run.progress("throughput", number, BATCHES + WARM_UP)
        if time.perf_counter() > ends and number > WARM_UP:
            break
    with new_profile() as profile:
        one_step(run, run.batches[0])
    restore(run, before)
    rows, tokens = rows_of(run.batches[0]), tokens_of(run.batches[0])
    run.measured(throughput=pace.evidence(rows, tokens, run.workers, calls, top_operators(profile)))


def _batches(run: TrainerRun) -> Iterator[Any]:
    """Those of the training loader, round after round."""
    while True:
        yield from run.trainer.get_train_dataloader()
