"""What a Trainer was given, and its own preparation up to the training loop.

Models whose weights are not here or do not fit: made from their configuration alone, to be projected.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, cast

from lintrain.model.location import Location
from lintrain.runtime.child.frames import function_location, is_users
from lintrain.runtime.child.hooks import Given, replaced
from lintrain.runtime.child.library import attribute, has, library
from lintrain.runtime.child.probe_session import ProbeSession
from lintrain.runtime.frameworks.trainer.later_calls import later_datasets
from lintrain.runtime.measure.held_values import last_return
from lintrain.runtime.measure.live_bytes import size_of
from lintrain.runtime.measure.predictions import free_memory
from lintrain.runtime.measure.swept_rows import Reading
from lintrain.text import show_size

RECORDED = (
    "activation_checkpointing",
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
    asked = dict(attribute(arguments, "lintrain_asked", {}))
    values = {name: getattr(arguments, name) for name in RECORDED if has(arguments, name)}
    values["save_strategy"] = asked.get("save_strategy")
    return {name: _scalar(value) for name, value in values.items()}


def _scalar(value: Any) -> str | int | float | bool | None:
    value = attribute(value, "value", value)
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def overridden(trainer: Any) -> tuple[str, ...]:
    """The trainer's methods that the user's own subclass replaces, and functions given instead of them."""
    names = [name for name in OVERRIDABLE if _is_users_function(attribute(trainer, name, None))]
    functions = ("compute_loss_func", "preprocess_logits_for_metrics", "model_init")
    names.extend(name for name in functions if attribute(trainer, name, None) is not None)
    if any(given is not None for given in (trainer.optimizer, trainer.lr_scheduler)):
        names.append("optimizers")
    return tuple(names)


def reading_of(trainer: Any, given: Given) -> Reading:
    """How the rows of a split come to the model: through the trainer's collator, without the columns it drops."""
    is_training = given.argument == "train_dataset"
    own = {"get_train_dataloader", "_get_train_sampler"} if is_training else {"get_eval_dataloader"}
    if own & set(overridden(trainer)):
        return Reading(draws_all=False)
    collate, arguments = trainer.data_collator, trainer.args
    name = f"`{attribute(collate, '__name__', type(collate).__name__)}`"
    if has(trainer, "_get_collator_with_removed_columns"):
        collate = trainer._get_collator_with_removed_columns(collate, description=None)
    by_length = attribute(arguments, "group_by_length", False) or "length" in str(
        attribute(arguments, "train_sampling_strategy", "")
    )
    size = trainer._train_batch_size if is_training else arguments.eval_batch_size
    return Reading(collate=collate, mixes=size > 1 and not by_length, name=name)


def loss_locations(trainer: Any) -> dict[str, Location]:
    """Where the user's function that computes the loss begins, and where it returns."""
    own = attribute(trainer, "compute_loss_func", None)
    function = trainer.compute_loss if own is None else own
    found = {"compute_loss": function_location(function), "returned_loss": last_return(function)}
    return {name: location for name, location in found.items() if location is not None}


def _is_users_function(function: Any) -> bool:
    code = attribute(function, "__code__")
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


MOST_SHARE = 0.5
"""Weights that take more of the free memory than this are not loaded: a step needs four times as much."""

REASON = "the weights were not loaded"
Load = Callable[..., Any]


def loaded_or_empty(session: ProbeSession, load: Load, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The model and the library's report about loading it; for a named device also if there are no weights."""
    if session.device_memory is None or (empty := _empty(cls, args, kwargs)) is None:
        return load(cls, *args, output_loading_info=True, **kwargs)
    size, free = sum(size_of(weight) for weight in empty.parameters()), free_memory()
    if free is not None and size > MOST_SHARE * free:
        return _instead(session, empty, f"they take {show_size(size)}, {show_size(free)} are free"), {}
    try:
        return load(cls, *args, output_loading_info=True, **kwargs)
    except OSError as error:  # the configuration was found, so that this is about the weights
        return _instead(session, empty, str(error).splitlines()[0]), {}


def is_weightless(model: Any) -> bool:
    """Whether some weights of a model have no values."""
    return any(attribute(weight, "is_meta", False) for weight in model.parameters())


def _empty(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The model without weights; None if it cannot be made from a configuration alone."""
    torch = library("torch")
    given = {name: value for name, value in kwargs.items() if name not in ("config", "dtype", "torch_dtype")}
    try:
        config = kwargs.get("config")
        if config is None or isinstance(config, str):
            config, _ = cls.config_class.from_pretrained(config or args[0], return_unused_kwargs=True, **given)
        if kwargs.get("quantization_config") or attribute(config, "quantization_config", None):
            return None
        options = {name: given[name] for name in ("attn_implementation",) if name in given}
        # Shapes and dtypes without memory: a model of 70 billion parameters is made in a second.
        with torch.device("meta"):
            return cls._from_config(config, dtype=_dtype(config, kwargs), **options).eval()
    except Exception:  # noqa: BLE001 - the script's own call will say what is wrong
        return None


def _dtype(config: Any, kwargs: dict[str, Any]) -> Any:
    """The format that the weights would be loaded in: from transformers 5 on that of the checkpoint."""
    torch, transformers = library("torch"), library("transformers")
    asked = kwargs.get("dtype", kwargs.get("torch_dtype"))
    if asked is None and int(transformers.__version__.split(".")[0]) < 5:
        return torch.float32
    if asked in (None, "auto"):
        asked = attribute(config, "dtype", None) or attribute(config, "torch_dtype", None) or torch.float32
    return getattr(torch, asked) if isinstance(asked, str) else asked


def _instead(session: ProbeSession, empty: Any, why: str) -> Any:
    session.note(f"{REASON}, a step is projected without them: {why}")
    _let_stay()
    return empty


def _let_stay() -> None:
    """Weights without values stay where they are, wherever they are sent."""
    module = library("torch.nn").Module
    if has(module, "lintrain_stays"):
        return
    apply = module._apply

    @functools.wraps(apply)
    def applied(self: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
        return apply(self, functools.partial(_moved, function), *args, **kwargs)

    module._apply, module.lintrain_stays = applied, True


def _moved(function: Callable[[Any], Any], tensor: Any) -> Any:
    if not tensor.is_meta:
        return function(tensor)
    try:
        return function(tensor)
    except NotImplementedError:
        return tensor
