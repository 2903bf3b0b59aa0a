"""What the model of a run is: class, inputs, head, positions, parameters."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from lintrain.evidence.run import ModelEvidence
from lintrain.runtime.child.library import attribute, has, library
from lintrain.runtime.child.measured_run import MeasuredRun
from lintrain.runtime.measure.left_weights import filled_by_script
from lintrain.runtime.measure.objects.statements import mentions

GENERIC_NAME = re.compile(r"LABEL_\d+")

LEVELS = 2

ADDED = re.compile(r"\.(base_layer|original_module|modules_to_save\.\w+)\.")
"""What PEFT puts into the names of the layers that it wraps."""


def base_model(model: Any) -> Any:
    """The model under its adapters: the one whose `forward` names the inputs."""
    return model.get_base_model() if has(model, "get_base_model") else model


def measure_model(run: MeasuredRun) -> ModelEvidence:
    """The facts that other stages and rules judge by."""
    model = base_model(run.model)
    config = attribute(model, "config", None)
    parameters = list(run.model.parameters())
    fresh = attribute(model, "lintrain_fresh", None)
    return ModelEvidence(
        name=attribute(model, "lintrain_name", type(model).__name__),
        inputs=tuple(inspect.signature(model.forward).parameters),
        label_inputs=run.label_inputs,
        task=task_of(model),
        num_labels=attribute(config, "num_labels", None),
        label_names=_label_names(config),
        positions=_positions(model, config),
        rotary=_is_rotary(config),
        pretrained=fresh is not None,
        is_origin_known=run.session.knows_origins,
        parameters=sum(parameter.numel() for parameter in parameters),
        trainable_parameters=sum(parameter.numel() for parameter in parameters if parameter.requires_grad),
        training=bool(model.training),
        has_dropout_or_batch_norm=_has_dropout_or_batch_norm(model),
        device=str(parameters[0].device) if parameters else "cpu",
        fresh=fresh or (),
        frozen_fresh=_frozen(fresh or (), run.model),
        formats=_formats(parameters),
        trained=_trained(run.model),
        embedding_rows=embedding_rows(model),
        embedding_trains=_embedding_trains(model),
        pad_id=_whole(attribute(config, "pad_token_id", None)),
        checkpoint=str(attribute(config, "_name_or_path", "") or ""),
        problem_type=attribute(config, "problem_type", None),
        idle_freeze=idle_freeze(run.model),
        is_left_random=fresh is None and run.session.knows_origins and is_left_random(model, config),
        token_types=_token_types(model),
        rows_before=_whole(attribute(model, "__dict__", {}).get(ROWS_BEFORE)),
    )


ROWS_BEFORE = "lintrain_rows_before"
RESIZED_AT = "lintrain_resized_at"
"""The attributes of a model with the rows of its embedding before the script resized it, and where it did."""


MISSPELT = frozenset({"require_grad", "require_grads", "requires_grads", "required_grad", "requiers_grad"})
"""Names that a script writes for `requires_grad`, and that torch does not read."""


def idle_freeze(model: Any) -> str | None:
    """The first module that was frozen by an attribute that torch does not read, by its outer two names, or None."""
    for name, module in model.named_modules():
        own = module.__dict__
        weights: list[Any] = list(own.get("_parameters", {}).values())
        is_shadowed = own.get("requires_grad") is False  # a method of modules
        if is_shadowed or any(_is_idle(thing) for thing in (module, *weights)):
            return ".".join(name.removeprefix("base_model.model.").split(".")[:LEVELS])
    return None


def _is_idle(thing: Any) -> bool:
    attributes: dict[str, Any] = attribute(thing, "__dict__", {})
    return any(attributes.get(name) is False for name in MISSPELT)


ON_PURPOSE = (
    r"scratch|random(ly)?[ _-]?(init|model)|pre-?train(?!ed)|distil(?!bert|roberta|gpt|-)|student|untrained|ablation"
)
"""Words of a script whose model is random on purpose."""
OF_HEAD = (
    "id2label",
    "label2id",
    "num_labels",
    "problem_type",
    "_name_or_path",
    "architectures",
    "transformers_version",
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
)
"""Settings that a script, or a Trainer by its tokenizer, changes without another architecture."""


def is_left_random(model: Any, config: Any) -> bool:
    """Whether its configuration is that of a checkpoint, but for the head, and the script names no purpose."""
    name = str(attribute(config, "_name_or_path", "") or "")
    if not name or filled_by_script(model) or mentions(ON_PURPOSE):
        return False
    try:
        own: dict[str, Any] = config.__class__.from_pretrained(name, local_files_only=True).to_dict()
    except (OSError, ValueError, KeyError):
        return False
    here: dict[str, Any] = config.to_dict()
    return all(here.get(key) == value for key, value in own.items() if key not in OF_HEAD)


def _frozen(fresh: Iterable[str], model: Any) -> tuple[str, ...]:
    """Those of the fresh parameters in whose layer nothing trains: neither they, nor a copy, nor an adapter."""
    trained = [ADDED.sub(".", f".{name}") for name, weight in model.named_parameters() if weight.requires_grad]
    return tuple(name for name in fresh if not any(f".{name.rpartition('.')[0]}." in each for each in trained))


def _trained(model: Any) -> dict[str, tuple[int, int]]:
    """For the whole and each module of the outer two levels: its tensors that train, and all."""
    counts: dict[str, tuple[int, int]] = {}
    for name, weight in model.named_parameters():
        parts = name.removeprefix("base_model.model.").split(".")[:-1]
        for depth in range(min(len(parts), LEVELS) + 1):
            trained, every = counts.get(".".join(parts[:depth]), (0, 0))
            counts[".".join(parts[:depth])] = (trained + bool(weight.requires_grad), every + 1)
    return counts


def _formats(parameters: Iterable[Any]) -> dict[str, int]:
    """How many trainable tensors there are of each dtype."""
    return dict(Counter(str(weight.dtype).removeprefix("torch.") for weight in parameters if weight.requires_grad))


def embedding_rows(model: Any) -> int | None:
    """The ids that the input embedding has a row for; None for models that read no ids."""
    return _whole(attribute(_embedding(model), "num_embeddings", None))


def _embedding_trains(model: Any) -> bool | None:
    """Whether anything in the input embedding learns, an adapter of it too."""
    table = _embedding(model)
    return None if table is None else any(weight.requires_grad for weight in table.parameters())


def _embedding(model: Any) -> Any:
    try:
        return model.get_input_embeddings()
    except (AttributeError, NotImplementedError):
        return None


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def task_of(model: Any) -> str:
    """What follows `For` in the name of the class or of a library class above it: `SequenceClassification`."""
    for kind in type(model).__mro__:
        found = re.search(r"For([A-Z]\w+)$|(LMHead)Model$", kind.__name__)
        if found:
            return found.group(1) or "CausalLM"
    return ""


def is_fresh(model: Any) -> bool:
    """Whether the head, or the whole model, holds no trained weights: neither a checkpoint nor the script filled it."""
    base = base_model(model)
    fresh = attribute(base, "lintrain_fresh", None)
    names = [name for name, _ in base.named_parameters()] if fresh is None else fresh
    if base is not model and attribute(model, "lintrain_filled", None):
        return False  # an adapter of before, which keeps its head with it
    return not filled_by_script(base).issuperset(names)


def _label_names(config: Any) -> tuple[str, ...]:
    names: dict[int, str] = attribute(config, "id2label", None) or {}
    values = tuple(str(names[key]) for key in sorted(names, key=int)) if len(names) <= 1000 else ()
    return () if all(GENERIC_NAME.fullmatch(name) for name in values) else values


def _positions(model: Any, config: Any) -> int | None:
    """Tokens that the position embeddings hold; RoBERTa's family keeps `padding_idx + 1` of them for itself."""
    if _is_rotary(config):
        value = attribute(config, "max_position_embeddings", None)
        return value if isinstance(value, int) else None
    for name, module in model.named_modules():
        if name.endswith(("position_embeddings", "wpe", "embed_positions")) and has(module, "num_embeddings"):
            offset = attribute(module, "offset", 0)
            padding = module.padding_idx
            return int(module.num_embeddings - (padding + 1 if padding is not None else offset))
    return None


def _token_types(model: Any) -> int | None:
    """The types of tokens that a model has an embedding for; None without one."""
    tables = (module for name, module in model.named_modules() if name.endswith("token_type_embeddings"))
    return next((_whole(attribute(table, "num_embeddings", None)) for table in tables), None)


def _is_rotary(config: Any) -> bool:
    return any(attribute(config, name, None) is not None for name in ("rope_theta", "rope_parameters", "rotary_dim"))


def has_batch_norm(model: Any) -> bool:
    """Whether a layer computes mean and variance over the rows of a batch."""
    kind = library("torch.nn").modules.batchnorm._BatchNorm
    return has(model, "modules") and any(isinstance(module, kind) for module in model.modules())


def _has_dropout_or_batch_norm(model: Any) -> bool:
    nn = library("torch.nn")
    return any(
        (isinstance(module, nn.Dropout) and module.p > 0) or isinstance(module, nn.modules.batchnorm._BatchNorm)
        for module in model.modules()
    )
