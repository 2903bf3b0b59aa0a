"""The stages of one `fit`, for the driver: Keras' own training step on a few batches."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lintrain.evidence.fields import EvidenceFields
from lintrain.evidence.run import EvaluationEvidence, StageName, WatchedNames
from lintrain.runtime.child.frames import is_users
from lintrain.runtime.child.library import attribute, has, is_mapping, is_row, library
from lintrain.runtime.frameworks.driver import Framework, Work, drive
from lintrain.runtime.frameworks.keras.data import (
    Backend,
    counted_modes,
    entries_of,
    part_training_data,
    shared_rows,
    splits_of,
)
from lintrain.runtime.frameworks.keras.keras_run import MOST_DRAWN, WHOLE, KerasRun, arguments_of
from lintrain.runtime.frameworks.lightning.facts import texts_of
from lintrain.runtime.measure.tables import show_predictions, show_rows

EVALUATION_BATCHES = 2


def measure(run: KerasRun, backend: Backend) -> None:
    """Every stage that this call can reach; evidence is sent as it comes."""
    drive(KerasFramework(run, backend))


class KerasFramework(Framework):
    """Keras' own data adapters, `train_step` and `evaluate` make everything; a backend says how gradients are
    computed.
    """

    name = "Keras"

    def __init__(self, run: KerasRun, backend: Backend) -> None:
        super().__init__(run)
        self.run: KerasRun = run
        self._backend = backend
        self._work: dict[StageName, Callable[[], None]] = {
            StageName.DATASET: lambda: _measure_dataset(run),
            StageName.BATCH: lambda: backend.take_batches(run),
            StageName.FORWARD: self._measure_forward,
            StageName.BACKWARD: lambda: backend.measure_backward(run),
            StageName.STEP: lambda: backend.take_two_steps(run),
            StageName.EVALUATION: lambda: _evaluate_two_batches(run),
        }

    def facts(self) -> EvidenceFields:
        """The call, where the model was compiled, and the arguments."""
        return {
            "framework": "keras",
            "trainer": self.run.trainer,
            "construction": attribute(self.run.keras, "lintrain_compiled", None),
            "device": self._backend.device(),
            "arguments": arguments_of(self.run),
        }

    def work(self, stage: StageName) -> Work | None:
        """What a stage does; none of the measurements on request is made (`docs/probe.md` says why)."""
        return Work(self._work[stage]) if stage in self._work else None

    def hindrance(self, stage: StageName) -> str:
        """Why a stage cannot run."""
        run = self.run
        # Only a built model knows its weights, and the forward stage builds it.
        is_after_forward = stage in (StageName.BACKWARD, StageName.STEP) and run.passed(StageName.FORWARD)
        if is_after_forward and not run.keras.trainable_variables:
            return "the model has no trainable weight"
        if stage is StageName.DATASET and run.trainer != WHOLE:
            return f"`{run.trainer}` receives one batch at a time"
        return _why_no_evaluation(run) if stage is StageName.EVALUATION else ""

    def _measure_forward(self) -> None:
        try:
            self._backend.measure_forward(self.run)
        finally:  # the labels are compared with the head of a model whose first batch fails, too
            self.run.measured(model=self._backend.measure_model(self.run))

    def conclude(self) -> None:
        """Compare the names that callbacks watch with those that are logged, if every part of an epoch ran.

        Draw on from a generator, for an epoch after the first one.
        """
        run = self.run
        if run.drawn is not None and run.passed(StageName.STEP) and run.given["epochs"] > 1:
            asked: int = (run.given["steps_per_epoch"] or MOST_DRAWN) * run.given["epochs"]
            run.drawn.draw_on(run.given["x"], min(asked, MOST_DRAWN))
            drawn = {"drawn_batches": run.drawn.count, "is_drawn_out": run.drawn.is_over}
            run.measured(arguments={**arguments_of(run), **drawn})
        # With one part missing, `val_loss` is missing as well, and a callback that monitors it
        # would be reported for that.
        is_whole = run.passed(StageName.STEP) and (run.validation is None or run.passed(StageName.EVALUATION))
        if run.trainer == WHOLE and is_whole:
            watched = watched_names(run)
            missing = [name for name in watched if name not in run.logged and not may_be_logged(run, name)]
            run.measured(watched_names=WatchedNames(watched, run.logged, tuple(missing)))


def _measure_dataset(run: KerasRun) -> None:
    part_training_data(run)
    run.measured(splits=splits_of(run), shared_rows=shared_rows(run))


def _why_no_evaluation(run: KerasRun) -> str:
    if run.trainer != WHOLE:
        return f"`{run.trainer}` does not evaluate"
    if run.validation is None:
        return "no validation data is given"
    return "" if run.passed(StageName.FORWARD) else "the model was not built"


def _evaluate_two_batches(run: KerasRun) -> None:
    x, y, weights = run.parts(run.validation)
    size = run.given["validation_batch_size"] or run.given["batch_size"]
    # A generator or a `tf.data` set has no rows to count: two batches are taken from it.
    rows = len(x) if has(x, "shape") else 0
    most = EVALUATION_BATCHES * (size or 32)
    if rows and type(run) is KerasRun:  # arrays, and Keras on torch
        # Shown before `evaluate`, which may raise in a metric: the rows then explain the error.
        _show_rows(run, *(_first(part, size or 32) for part in (x, y, weights)))
    with counted_modes(run.keras) as modes:
        metrics: Any = run.keras.evaluate(
            x,
            y,
            batch_size=size,
            sample_weight=weights,
            # `steps` beyond the end of the data makes Keras warn and stop; without it all rows are read.
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


def _show_rows(run: KerasRun, x: Any, y: Any, weights: Any) -> None:
    """Show rows of the first validation batch, and what the model predicts for them."""
    show_rows(run, "eval_dataset", [entries_of(run, (x, y, weights))])
    with library("torch").no_grad():
        outputs: Any = run.keras(x, training=False)
    show_predictions(run, "eval_dataset", outputs)


def _first(part: Any, rows: int) -> Any:
    """The first rows of an array, or of each of several."""
    if is_mapping(part):
        return {name: _first(inner, rows) for name, inner in part.items()}
    return [_first(inner, rows) for inner in part] if is_row(part) else None if part is None else part[:rows]


def watched_names(run: KerasRun) -> tuple[str, ...]:
    """The names that the library's callbacks monitor; a checkpoint that keeps every epoch monitors none."""
    # `save_best_only` is a setting of ModelCheckpoint; callbacks without it, such as EarlyStopping, always monitor.
    watching = [one for one in _callbacks(run) if attribute(one, "save_best_only", True)]
    names = [attribute(one, "monitor", None) for one in watching if not is_own(one)]
    return tuple(dict.fromkeys(name for name in names if isinstance(name, str)))


def may_be_logged(run: KerasRun, name: str) -> bool:
    """Whether a callback of the script's own contains a name, and may therefore log it."""
    return any(name in texts_of(function.__code__) for one in _callbacks(run) for function in _own_functions(one))


def is_own(callback: Any) -> bool:
    """Whether the class of a callback is one of the script's own."""
    return any(True for _ in _own_functions(callback))


def _callbacks(run: KerasRun) -> list[Any]:
    given = run.given["callbacks"]
    given = attribute(given, "callbacks", given)
    return list(given) if is_row(given) else [given] if given is not None else []


def _own_functions(callback: Any) -> Iterator[Any]:
    """The methods that the script's own classes give a callback, and functions that it was given."""
    values: list[object] = [value for base in type(callback).__mro__ for value in vars(base).values()]
    own: dict[str, object] = attribute(callback, "__dict__", {})
    for value in (*values, *own.values()):
        function = inspect.unwrap(value) if inspect.isfunction(value) else None
        if function is not None and is_users(function.__code__.co_filename):
            yield function
