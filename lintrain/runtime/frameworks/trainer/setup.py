"""What a Trainer was given, and its own preparation up to the training loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from lintrain.model.location import Location
from lintrain.runtime.child.frames import is_users
from lintrain.runtime.child.given import Given
from lintrain.runtime.child.library import library
from lintrain.runtime.child.replace import replaced
from lintrain.runtime.frameworks.trainer.later_calls import later_datasets

RECORDED = (
    "bf16",
    "data_seed",
    "dataloader_drop_last",
    "do_eval",
    "eval_strategy",
    "evaluation_strategy",
    "fp16",
    "gradient_accumulation_steps",
    "gradient_checkpointing",
    "greater_is_better",
    "group_by_length",
    "label_smoothing_factor",
    "learning_rate",
    "load_best_model_at_end",
    "lr_scheduler_type",
    "max_grad_norm",
    "max_steps",
    "metric_for_best_model",
    "num_train_epochs",
    "optim",
    "per_device_eval_batch_size",
    "per_device_train_batch_size",
    "predict_with_generate",
    "remove_unused_columns",
    "seed",
    "train_sampling_strategy",
    "warmup_ratio",
    "warmup_steps",
    "weight_decay",
)
OVERRIDABLE = (
    "compute_loss",
    "create_optimizer",
    "create_optimizer_and_scheduler",
    "create_scheduler",
    "evaluate",
    "evaluation_loop",
    "get_eval_dataloader",
    "get_train_dataloader",
    "prediction_step",
    "train",
    "training_step",
    "_get_train_sampler",
)


def given_splits(trainer: Any, entry: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Given]:
    """The datasets of a trainer by argument, and the one that this call was given."""
    given: list[tuple[str, Any, Location | None]] = [("train_dataset", trainer.train_dataset, None)]
    name = {"predict": "test_dataset", "evaluate": "eval_dataset"}.get(entry)
    passed = (args[0] if args else kwargs.get(name)) if name else None
    if name != "eval_dataset" or passed is None:
        given.append(("eval_dataset", trainer.eval_dataset, None))
    if name is not None and passed is not None:
        given.append((name, passed, None))
    known = {id(dataset) for _, dataset, _ in given}
    given += [later for later in later_datasets(trainer) if id(later[1]) not in known]
    return [split for one in given if one[1] is not None for split in _flat(*one)]


def _flat(argument: str, dataset: Any, location: Location | None) -> list[Given]:
    if isinstance(dataset, Mapping):
        splits = cast("Mapping[object, Any]", dataset)
        return [Given(argument, one, str(key), location) for key, one in splits.items()]
    return [Given(argument, dataset, None, location)]


def argument_values(arguments: Any) -> dict[str, str | int | float | bool | None]:
    """The arguments that a rule may need, as the user set them."""
    asked = dict(getattr(arguments, "lintrain_asked", {}))
    values = {name: getattr(arguments, name) for name in RECORDED if hasattr(arguments, name)}
    values["save_strategy"] = asked.get("save_strategy")
    return {name: _scalar(value) for name, value in values.items()}


def _scalar(value: Any) -> str | int | float | bool | None:
    value = getattr(value, "value", value)
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def overridden(trainer: Any) -> tuple[str, ...]:
    """The trainer's methods that the user's own subclass replaces, and functions given instead of them."""
    names = [name for name in OVERRIDABLE if _is_users_function(getattr(trainer, name, None))]
    functions = ("compute_loss_func", "preprocess_logits_for_metrics", "model_init")
    names.extend(name for name in functions if getattr(trainer, name, None) is not None)
    if any(given is not None for given in (trainer.optimizer, trainer.lr_scheduler)):
        names.append("optimizers")
    return tuple(names)


def _is_users_function(function: Any) -> bool:
    code = getattr(function, "__code__", None)
    return code is not None and is_users(code.co_filename)


def run_until_the_loop(trainer: Any) -> None:
    """Let the library prepare everything up to its first epoch."""
    trainer.args.dataloader_num_workers = 0  # a traceback from a worker process hides the user's frame
    trainer.args.dataloader_persistent_workers = False
    trainer.args.dataloader_prefetch_factor = None
    trainer.current_gradient_accumulation_steps = 1
    # `train` moves the model, seeds, resolves the batch size and calls `_inner_training_loop` last; with that
    # replaced, everything is set up as in a real run and no step is taken (transformers 4.40 to 5.23).
    with replaced(trainer, _inner_training_loop=_nothing):
        library("transformers.trainer").Trainer.train(trainer)


def _nothing(*args: Any, **kwargs: Any) -> None:
    return None
