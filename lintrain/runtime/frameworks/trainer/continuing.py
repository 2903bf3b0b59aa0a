"""What the calls of a measured Trainer return, so that the script continues to its next training.

Nothing is trained: `train` returns what it would after so many steps, with the losses that were measured; evaluations
and predictions are made on a few rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

from lintrain.runtime.child.hooks import replaced
from lintrain.runtime.child.library import is_mapping, is_row, library
from lintrain.runtime.frameworks.trainer.step import training_steps
from lintrain.runtime.frameworks.trainer.trainer_run import TrainerRun
from lintrain.runtime.measure.seen import subset

BATCHES = 2
ARGUMENTS = {"predict": "test_dataset", "evaluate": "eval_dataset"}


def train_output(run: TrainerRun) -> Any:
    """The result of `train`; the trainer's state is that after the last step."""
    trainer, steps = run.trainer, training_steps(run)
    loss = sum(run.losses) / len(run.losses) if run.losses else 0.0
    epochs = float(trainer.args.num_train_epochs)
    trainer.state.global_step = trainer.state.max_steps = steps
    trainer.state.epoch = epochs
    trainer.state.log_history.append({"loss": loss, "epoch": epochs, "step": steps})
    metrics = {
        "train_runtime": 1.0,
        "train_samples_per_second": 1.0,
        "train_steps_per_second": 1.0,
        "total_flos": 0.0,
        "train_loss": loss,
        "epoch": epochs,
    }
    return library("transformers.trainer_utils").TrainOutput(steps, loss, metrics)


def on_a_few_rows(
    trainer: Any, entry: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """The result of `evaluate` or `predict`, on two batches; predictions are repeated for the other rows."""
    name = ARGUMENTS[entry]
    given = args[0] if args else kwargs.get(name)
    whole: Any = trainer.eval_dataset if given is None and entry == "evaluate" else given
    few = _few_rows(trainer, whole)
    rest = {key: value for key, value in kwargs.items() if key != name}
    with ExitStack() as stack:
        stack.enter_context(replaced(trainer, log=_nothing))
        stack.enter_context(replaced(trainer.callback_handler, callbacks=[]))
        result = original(trainer, few, *args[1:], **rest)
    return result if entry == "evaluate" else _repeated(result, len(whole))


def _few_rows(trainer: Any, dataset: Any) -> Any:
    rows = BATCHES * int(trainer.args.eval_batch_size)
    if is_mapping(dataset):
        return {key: subset(each, rows) for key, each in dataset.items()}
    return subset(dataset, rows)


def _repeated(output: Any, rows: int) -> Any:
    """Predictions and labels for as many rows as the script asked about."""
    return output._replace(predictions=_resized(output.predictions, rows), label_ids=_resized(output.label_ids, rows))


def _resized(values: Any, rows: int) -> Any:
    if is_row(values):
        return tuple(_resized(each, rows) for each in values)
    if values is None or not len(values):
        return values
    return values[library("numpy").arange(rows) % len(values)]


def _nothing(*args: Any, **kwargs: Any) -> None:
    return None
