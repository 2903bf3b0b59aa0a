"""The stages of one `fit`, in the order of the pipeline: Keras' own training step on a few batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from lintrain.evidence.run import EvaluationEvidence, Stage, WatchedNames
from lintrain.runtime.child.kinds import is_mapping
from lintrain.runtime.frameworks.keras.compiled import arguments_of
from lintrain.runtime.frameworks.keras.data import part_training_data, splits_of
from lintrain.runtime.frameworks.keras.modes import counted_modes
from lintrain.runtime.frameworks.keras.monitors import may_be_logged, watched_names
from lintrain.runtime.frameworks.keras.overlap import shared_rows
from lintrain.runtime.frameworks.keras.run import WHOLE, KerasRun
from lintrain.runtime.frameworks.keras.work import Work

EVALUATION_BATCHES = 2


def measure(run: KerasRun, work: Work) -> None:
    """Every stage that this call can reach; evidence is sent as it comes."""
    session = run.session
    session.channel.send("run", run=0, values=_facts(run, work.device()))
    for name in ("script", "construction"):
        session.channel.send(
            "stage", run=0, stage=Stage(name, "passed", session.elapsed() if name == "script" else 0.0)
        )
    if run.trainer == WHOLE:
        run.attempt("dataset", lambda: _measure_dataset(run))
    else:
        run.skip("dataset", f"`{run.trainer}` is given one batch at a time")
    _measure_training(run, work)
    _evaluate(run)
    _compare_names(run)
    run.measured(shortcuts=session.shortcuts, notes=session.notes)


def _facts(run: KerasRun, device: str) -> dict[str, Any]:
    return {
        **run.session.facts(),
        "framework": "keras",
        "trainer": run.trainer,
        "call": run.call,
        "construction": getattr(run.keras, "lintrain_compiled", None),
        "device": device,
        "arguments": arguments_of(run),
        "shortcuts": run.session.shortcuts,
        "notes": run.session.notes,
    }


def _measure_dataset(run: KerasRun) -> None:
    part_training_data(run)
    run.measured(splits=splits_of(run), shared_rows=shared_rows(run))


def _measure_training(run: KerasRun, work: Work) -> None:
    stages: dict[str, Callable[[], None]] = {
        "batch": lambda: work.take_batches(run),
        "forward": lambda: _go_forward(run, work),
        "backward": lambda: work.measure_backward(run),
        "step": lambda: work.take_two_steps(run),
    }
    names = list(stages)
    for number, name in enumerate(names):
        if name == "backward" and not run.keras.trainable_variables:
            for later in names[number:]:
                run.skip(later, "no weight of the model is trained")
            return
        run.attempt(name, stages[name])
        if not run.passed(name):
            for later in names[number + 1 :]:
                run.skip(later, f"the {name} stage failed")
            return


def _go_forward(run: KerasRun, work: Work) -> None:
    try:
        work.measure_forward(run)
    finally:  # the labels are held against the head of a model whose first batch fails, too
        run.measured(model=work.measure_model(run))


def _evaluate(run: KerasRun) -> None:
    if run.trainer != WHOLE:
        run.skip("evaluation", f"`{run.trainer}` evaluates nothing")
    elif run.validation is None:
        run.skip("evaluation", "no validation data is given")
    elif not run.passed("forward"):
        run.skip("evaluation", "the model was not built")
    else:
        run.attempt("evaluation", lambda: _evaluate_two_batches(run))


def _evaluate_two_batches(run: KerasRun) -> None:
    x, y, weights = run.parts(run.validation)
    size = run.given["validation_batch_size"] or run.given["batch_size"]
    rows = len(x) if hasattr(x, "shape") else 0
    most = EVALUATION_BATCHES * (size or 32)
    with counted_modes(run.keras) as modes:
        metrics: Any = run.keras.evaluate(
            x,
            y,
            batch_size=size,
            sample_weight=weights,
            steps=None if rows and rows <= most else EVALUATION_BATCHES,
            verbose=0,
            return_dict=True,
        )
    numbers: Mapping[str, Any] = metrics if is_mapping(metrics) else {}
    run.logged = (*run.logged, *(f"val_{name}" for name in numbers))
    has_metrics = set(numbers) > {"loss"}
    run.measured(
        evaluation=EvaluationEvidence(
            wanted=True,
            is_followed=True,
            batches=math.ceil(min(rows, most) / (size or 32)) if rows else EVALUATION_BATCHES,
            passes_in_training_mode=modes.in_training,
            losses=(float(numbers["loss"]),) if "loss" in numbers else (),
            has_metric_function=has_metrics,
            metric_function_called=has_metrics,
            rows=min(rows, most),
            number_of_rows=rows or None,
            returned=type(metrics).__name__,
            metrics={str(name): float(value) for name, value in numbers.items()},
            non_finite=tuple(str(name) for name, value in numbers.items() if not math.isfinite(value)),
        )
    )


def _compare_names(run: KerasRun) -> None:
    """What callbacks watch, where every part of an epoch went through."""
    is_whole = run.passed("step") and (run.validation is None or run.passed("evaluation"))
    if run.trainer == WHOLE and is_whole:
        watched = watched_names(run)
        missing = [name for name in watched if name not in run.logged and not may_be_logged(run, name)]
        run.measured(watched_names=WatchedNames(watched, run.logged, tuple(missing)))
