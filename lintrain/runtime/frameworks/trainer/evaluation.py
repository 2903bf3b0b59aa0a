"""The evaluation stage: two batches of every evaluation set, through the trainer's own evaluation, before training."""

from __future__ import annotations

import functools
import io
import math
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import replace
from types import FrameType
from typing import Any

from lintrain.evidence.run import BatchAnswers, EvaluationEvidence, StageName, StageStatus
from lintrain.model.location import Location
from lintrain.runtime.child.frames import frame_location
from lintrain.runtime.child.hooks import Given, replaced
from lintrain.runtime.child.library import attribute, attributes_to_copy, has, is_mapping, library
from lintrain.runtime.child.surroundings import same_random_numbers
from lintrain.runtime.frameworks.trainer.setfit import fit_and_evaluate, outer_trainer
from lintrain.runtime.frameworks.trainer.trainer_run import TrainerRun
from lintrain.runtime.measure.baselines import NOTHING, of_metric_function
from lintrain.runtime.measure.descents import answers_in_batch
from lintrain.runtime.measure.objects.statements import only_call
from lintrain.runtime.measure.predictions import (
    IGNORED,
    bytes_of,
    change_by_ignored,
    change_by_opposite,
    classes_in,
    count_of,
    free_memory,
    numbers_in,
)
from lintrain.runtime.measure.seen import subset
from lintrain.runtime.measure.tables import record_batches, show_predictions

BATCHES = 2


class Seen:
    """What the metric function was given and gave back."""

    def __init__(self) -> None:
        self.predictions: Any = None
        self.labels: Any = None
        self.called = False
        self.metrics: Any = None
        self.given: tuple[str, ...] = ()
        self.change: float | None = None
        self.opposite: float | None = None
        self.baselines = NOTHING
        self.returned_at: Location | None = None


def why_no_evaluation(run: TrainerRun, given: list[Given]) -> str:
    """Why the stage cannot run; "" if it can."""
    if outer_trainer(run.trainer) is not None:
        return ""
    if not _evaluated(given):
        return "no `eval_dataset` is given"
    if run.session.device != "cpu" and StageStatus.FAILED in run.statuses.values():
        return "an error on the GPU can leave it unusable"
    return ""


def evaluate_two_batches(run: TrainerRun, given: list[Given]) -> None:
    """Evaluate two batches of all evaluation sets."""
    outer = outer_trainer(run.trainer)
    if outer is not None:
        fit_and_evaluate(run, outer)
    else:
        _evaluate_all(run, _evaluated(given))


def _evaluated(given: list[Given]) -> list[Given]:
    return [split for split in given if split.argument != "train_dataset"]


def _evaluate_all(run: TrainerRun, splits: list[Given]) -> None:
    """Every set has its turn; the first error is that of the stage."""
    failed: list[tuple[Given, BaseException]] = []
    for number, split in enumerate(splits):
        run.progress(StageName.EVALUATION, number, len(splits))
        try:
            _evaluate(run, split, is_first=number == 0)
        except BaseException as error:  # noqa: BLE001 - whatever the user's metric raises is the answer, of each set
            failed.append((split, error))
    if failed:
        split, first = failed[0]
        run.about = f"on `{split.name}`"
        run.fallback = split.location or run.call
        raise first


def _evaluate(run: TrainerRun, split: Given, *, is_first: bool) -> None:
    trainer, seen = run.trainer, Seen()
    rows = subset(split.dataset, BATCHES * trainer.args.eval_batch_size)
    try:
        with ExitStack() as stack:
            stack.enter_context(replaced(trainer, log=_nothing))
            # Callbacks may stop the run, save, or report; none of them belongs to two batches of a probe.
            stack.enter_context(replaced(trainer.callback_handler, callbacks=[]))
            if trainer.compute_metrics is not None:
                stack.enter_context(replaced(trainer, compute_metrics=_watched(run, trainer.compute_metrics, seen)))
            _collate(run, split, rows)
            seen.given = _call(run, split, rows)
    finally:
        # One set stands for all, unless a later one shows a mistake that the first did not.
        if is_first or _is_bad(seen):
            run.measured(evaluation=_evidence(run, split, seen, _length(rows)))


def _collate(run: TrainerRun, split: Given, rows: Any) -> None:
    trainer = run.trainer
    make = trainer.get_test_dataloader if split.argument == "test_dataset" else trainer.get_eval_dataloader
    batches = list(make(rows))[:BATCHES]
    if batches:
        record_batches(run, split.argument, batches, split.key)


def _call(run: TrainerRun, split: Given, rows: Any) -> tuple[str, ...]:
    with _first_outputs(run.trainer.model) as outputs:
        metrics = _evaluate_rows(run.trainer, split, rows)
    for number, output in enumerate(outputs):
        show_predictions(run, split.argument, output, split.key, batch=number)
    return tuple(map(str, metrics)) if is_mapping(metrics) else ()


@contextmanager
def _first_outputs(model: Any) -> Generator[list[Any]]:
    """What the model gives when it is first called meanwhile, once for each batch."""
    outputs: list[Any] = []

    def keep(_module: Any, _args: Any, output: Any) -> None:
        if len(outputs) < BATCHES:
            outputs.append(output)

    hook = model.register_forward_hook(keep)
    try:
        yield outputs
    finally:
        hook.remove()


def _evaluate_rows(trainer: Any, split: Given, rows: Any) -> Any:
    """What the trainer gives: the metric function's numbers, and those that its own class adds (an `evaluator`)."""
    if split.argument == "test_dataset":
        return attribute(trainer.predict(rows), "metrics", None)
    if split.is_of(trainer.eval_dataset):
        # a trainer prepares what it is given by a call (TRL's DPOTrainer, 1.16), but not again what it already has
        with replaced(trainer, eval_dataset={split.key: rows} if split.key is not None else rows):
            return trainer.evaluate()
    return trainer.evaluate(eval_dataset=rows)


def _nothing(*args: Any, **kwargs: Any) -> None:
    return None


def _watched(run: TrainerRun, function: Callable[..., Any], seen: Seen) -> Callable[..., Any]:
    @functools.wraps(function, assigned=attributes_to_copy(function))
    def compute_metrics(prediction: Any, *args: Any, **kwargs: Any) -> Any:
        seen.called = True
        seen.predictions = attribute(prediction, "predictions", None)
        seen.labels = attribute(prediction, "label_ids", None)
        with _returns(run, function, seen):
            seen.metrics = function(prediction, *args, **kwargs)
        if not args and not kwargs:
            # Only a plain metric function is called again: with batches (`batch_eval_metrics`) it keeps a state
            # between calls.
            seen.change = change_by_ignored(function, prediction, seen.metrics)
            seen.opposite = change_by_opposite(function, prediction, seen.metrics)
            seen.baselines = of_metric_function(function, prediction, seen.metrics)
        return seen.metrics

    return compute_metrics


@contextmanager
def _returns(run: TrainerRun, function: Callable[..., Any], seen: Seen) -> Generator[None]:
    """Keep the line at which the metric function returns."""
    code = attribute(function, "__code__")

    def on_event(frame: FrameType, event: str, _: object) -> None:
        if event == "return" and frame.f_code is code:
            seen.returned_at = frame_location(frame)

    if not run.session.may_trace or sys.getprofile() is not None:
        yield
        return
    sys.setprofile(on_event)
    try:
        yield
    finally:
        sys.setprofile(None)


def answers_after_steps(run: TrainerRun, batch: Any, output: Any) -> BatchAnswers:
    """What the model answers now, and the script's metric function of it, through the trainer's own prediction."""
    found = answers_in_batch(run, batch, output)
    if run.trainer.compute_metrics is None or not is_mapping(batch) or outer_trainer(run.trainer) is not None:
        return found
    try:
        with same_random_numbers(), redirect_stdout(io.StringIO()):
            metrics = _metrics_of_batch(run.trainer, dict(batch))
    except Exception as error:  # noqa: BLE001 - it may need more rows than a batch has
        run.session.note(f"the metrics of the repeated batch were not measured: {type(error).__name__}: {error}")
        return found
    return replace(found, metrics=metrics)


def _metrics_of_batch(trainer: Any, batch: dict[str, Any]) -> dict[str, float]:
    """The numbers that the metric function of a trainer gives for one batch; none where it keeps a state."""
    if attribute(trainer.args, "batch_eval_metrics", False):
        return {}
    _, logits, labels = trainer.prediction_step(trainer.model, batch, prediction_loss_only=False)
    if logits is None or labels is None:
        return {}
    if trainer.preprocess_logits_for_metrics is not None:
        logits = trainer.preprocess_logits_for_metrics(logits, labels)
    arrays = library("transformers.trainer_pt_utils").nested_numpify
    given = library("transformers.trainer_utils").EvalPrediction(arrays(logits), arrays(labels))
    return numbers_in(trainer.compute_metrics(given))


def _length(rows: Any) -> int:
    return len(rows) if has(rows, "__len__") else 0


def _is_bad(seen: Seen) -> bool:
    return seen.called and (not is_mapping(seen.metrics) or bool(_non_finite(seen.metrics)))


def _evidence(run: TrainerRun, split: Given, seen: Seen, rows: int) -> EvaluationEvidence:
    arguments = run.trainer.args
    strategy = attribute(arguments, "eval_strategy", attribute(arguments, "evaluation_strategy", "no"))
    metrics: Mapping[str, Any] = seen.metrics if is_mapping(seen.metrics) else {}
    size = bytes_of(seen.predictions)
    return EvaluationEvidence(
        wanted=str(attribute(strategy, "value", strategy)) != "no",
        has_metric_function=run.trainer.compute_metrics is not None,
        metric_function_called=seen.called,
        argument=split.argument,
        rows=rows,
        predictions=type(seen.predictions).__name__ if seen.called else "",
        predictions_are_tuple=isinstance(seen.predictions, tuple),
        predictions_shape=tuple(attribute(seen.predictions, "shape", ())),
        returned=type(seen.metrics).__name__ if seen.metrics is not None else "",
        returned_at=seen.returned_at,
        chosen_at=only_call(".argmax") if seen.opposite == 0 else None,
        labels=_entries(seen.labels),
        ignored_labels=count_of(seen.labels, IGNORED),
        label_classes=classes_in(seen.labels),
        change_by_ignored=seen.change,
        change_by_opposite=seen.opposite,
        number_of_rows=_length(split.dataset),
        bytes_per_row=size / rows if size is not None and rows else None,
        free_memory=free_memory(),
        metrics={str(name): _number(value) for name, value in metrics.items()},
        of_constant=seen.baselines.of_constant,
        of_random=seen.baselines.of_random,
        given=seen.given,
        non_finite=_non_finite(metrics),
    )


def _entries(labels: Any) -> int:
    return int(attribute(labels, "size", 0) or 0)


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _non_finite(metrics: Mapping[str, Any]) -> tuple[str, ...]:
    numbers = {str(name): _number(value) for name, value in metrics.items()}
    return tuple(name for name, value in numbers.items() if value is not None and not math.isfinite(value))
