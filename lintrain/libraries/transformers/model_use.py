"""Using models: their attributes and methods, what calling them gives, and how their parameters are frozen."""

from __future__ import annotations

from lintrain.interpreter.core.call import Call, escape
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import (
    attribute_of,
    called,
    element_of,
    method,
    method_of,
    stored_attribute_of,
    subscript_of,
)
from lintrain.libraries.peft import note_adapter
from lintrain.libraries.torch.freezing import freeze, mode_of, move, note_module_attribute, set_mode
from lintrain.model.location import Location
from lintrain.pipeline.events import Act
from lintrain.pipeline.values.model import (
    Config,
    Model,
    ModelPart,
    Parameters,
)
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Absent,
    Bound,
    Constant,
    Value,
)

HEADS = frozenset({"classifier", "score", "classification_head", "head", "fc", "out_proj", "lm_head", "num_labels"})
"""Attributes that a script sets to give a model another head."""


@attribute_of(Model)
def _attribute(reader: Reader, value: Value, name: str, location: Location) -> Value | None:
    if not isinstance(value, Model):
        return None
    if name in value.attributes:
        return value.attributes[name]
    # The shells of DistributedDataParallel and `torch.compile`: behind both is the same model.
    if name in {"module", "_orig_mod"}:
        return value
    if name == "training":
        return mode_of(reader, value)
    if name == "config":
        return _config(value)
    if name == "optimizer":
        for run in reader.record.keras_runs:
            run.is_optimizer_touched = run.is_optimizer_touched or run.model is value
    if name == "num_labels" and not isinstance(value.num_labels, Absent):
        return value.num_labels
    # A part and not unknown: `model.encoder.layer[0].parameters()` freezes that part, which rules ask about.
    return Bound(value, name) if method_of(value, name) else ModelPart(value, name)


def _config(model: Model) -> Config:
    """The model's configuration: what the script stores in it changes the model."""
    if model.config is None:
        model.config = Config(model.path, model.checkpoint, {}, {}, model.num_labels, False)
    # One object for each read: what a script stores at `model.config.pad_token_id` is found at the next one.
    model.attributes["config"] = model.config
    return model.config


@stored_attribute_of(Model)
def _store(reader: Reader, owner: Value, name: str, value: Value, location: Location) -> None:
    """A new head or head size set on a made model: its number of labels is no longer that of its call."""
    if not isinstance(owner, Model):
        return
    owner.attributes[name] = value
    if name == "trainable":
        freeze(reader, owner, value, location)
    note_module_attribute(reader, owner, name, value, location)
    if name in HEADS:
        owner.num_labels = UNKNOWN
    if name == "config":
        owner.config = value if isinstance(value, Config) else None


@attribute_of(ModelPart)
def _inner_part(reader: Reader, value: Value, name: str, location: Location) -> Value | None:
    if not isinstance(value, ModelPart) or method_of(value, name):
        return None
    return ModelPart(value.model, f"{value.name}.{name}")


@stored_attribute_of(ModelPart)
def _store_inside(reader: Reader, owner: Value, name: str, value: Value, location: Location) -> None:
    """`model.classifier.out_proj = …` is another head; `model.base_model.requires_grad = False` freezes nothing."""
    if isinstance(owner, ModelPart) and isinstance(owner.model, Model):
        if name in HEADS:
            # The size of the new head may be computed; the old number would contradict it.
            owner.model.num_labels = UNKNOWN
        if name == "trainable":
            freeze(reader, owner.model, value, location, part=owner.name)
        note_module_attribute(reader, owner, name, value, location)


@subscript_of(ModelPart)
def _numbered_part(reader: Reader, value: Value, key: Value, location: Location) -> Value:
    return ModelPart(value.model, f"{value.name}[]") if isinstance(value, ModelPart) else UNKNOWN


@element_of(ModelPart)
def _each_part(reader: Reader, value: Value) -> Value:
    return ModelPart(value.model, f"{value.name}[]") if isinstance(value, ModelPart) else UNKNOWN


@called(ModelPart)
def _call_part(call: Call) -> Value:
    """A method that is not known: it may do anything to the model and to what it is given."""
    escape(call)
    if isinstance(call.receiver, ModelPart):
        call.reader.act(Act.TOUCH, call.location, call.receiver.model, name=Constant(call.receiver.name))
    return UNKNOWN


def whole(value: Value) -> Value:
    """The model that a value is, or is a part of."""
    return value.model if isinstance(value, ModelPart) else value


@method(Model, "to", "cuda", "cpu", "half", "float", "double", "bfloat16", "tie_weights")
@method(ModelPart, "to", "cuda", "cpu", "half", "float", "double", "bfloat16")
def _move(call: Call) -> Value:
    return move(call)


@method(Model, "train", "eval")
def _set_mode(call: Call) -> Value:
    return set_mode(call)


@method(ModelPart, "train", "eval")
def _set_mode_of_part(call: Call) -> Value:
    return call.receiver


@method(Model, "parameters", "named_parameters")
@method(ModelPart, "parameters", "named_parameters")
def _parameters(call: Call) -> Value:
    named = call.path.endswith("named_parameters")
    is_part = isinstance(call.receiver, ModelPart)
    part = call.receiver.name if isinstance(call.receiver, ModelPart) else ""
    return Parameters((whole(call.receiver),), named, is_part, part, origin=call.location)


@method(Model, "zero_grad")
def _zero_grad(call: Call) -> Value:
    call.reader.act(Act.ZERO_GRAD, call.location, call.receiver, text=Constant(call.receiver_text))
    return Constant(None)


@method(Model, "save_pretrained", "push_to_hub")
def _save(call: Call) -> Value:
    call.reader.act(Act.SAVE, call.location, call.receiver)
    return UNKNOWN


@method(Model, "resize_token_embeddings", "enable_input_require_grads")
@method(Model, "num_parameters", "print_trainable_parameters", "gradient_checkpointing_disable")
@method(Model, "activation_checkpointing_disable")
@method(Model, "get_input_embeddings", "get_output_embeddings", "state_dict", "named_modules", "modules")
@method(Model, "get_nb_trainable_parameters", "get_memory_footprint")
def _changes_nothing_here(call: Call) -> Value:
    return UNKNOWN


@method(Model, "gradient_checkpointing_enable", "activation_checkpointing_enable")
def _checkpoint(call: Call) -> Value:
    call.reader.act(Act.CHECKPOINT, call.location, call.receiver)
    return UNKNOWN


@method(Model, "load_state_dict", "apply", "load_adapter", "set_adapter", "enable_adapters", "merge_and_unload")
@method(Model, "unload", "merge_adapter", "set_input_embeddings", "set_output_embeddings", "init_weights")
@method(Model, "enable_adapter_layers", "disable_adapters", "disable_adapter_layers", "delete_adapter")
def _change_inside(call: Call) -> Value:
    """Weights, adapters or parts of the model become others."""
    call.reader.act(Act.TOUCH, call.location, call.receiver, name=Constant(call.path.rpartition(".")[2]))
    return UNKNOWN


@method(Model, "add_adapter")
def _add_adapter(call: Call) -> Value:
    if isinstance(call.receiver, Model):
        call.receiver.is_adapted = True
        note_adapter(call, call.receiver, call.value("adapter_config", 0))
    return UNKNOWN
