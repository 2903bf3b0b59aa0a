"""Using models: their attributes and methods, what calling them gives, and how their parameters are frozen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lintrain.core.place import Place
from lintrain.pipeline.call import Call
from lintrain.pipeline.events import Act
from lintrain.pipeline.invocation import escape
from lintrain.pipeline.registry import (
    attribute_of,
    called,
    element_of,
    method,
    method_of,
    stored_attribute_of,
    subscript_of,
)
from lintrain.pipeline.values.model import (
    Config,
    Model,
    ModelPart,
    Parameter,
    Parameters,
)
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Absent,
    Bound,
    Constant,
    Sequence,
    Unknown,
    Value,
    literal,
)

if TYPE_CHECKING:
    from lintrain.pipeline.reader import Reader

HEADS = frozenset({"classifier", "score", "classification_head", "head", "fc", "out_proj", "lm_head", "num_labels"})
"""Attributes that a script sets to give a model another head."""


@attribute_of(Model)
def _attribute(reader: Reader, value: Value, name: str, place: Place) -> Value | None:
    if not isinstance(value, Model):
        return None
    if name in value.attributes:
        return value.attributes[name]
    if name in {"module", "_orig_mod"}:
        return value
    if name == "config":
        return _config(value)
    if name == "optimizer":
        for run in reader.record.keras_runs:
            run.is_optimizer_touched = run.is_optimizer_touched or run.model is value
    if name == "num_labels" and not isinstance(value.num_labels, Absent):
        return value.num_labels
    return Bound(value, name) if method_of(value, name) else ModelPart(value, name)


def _config(model: Model) -> Config:
    """The model's configuration: what the script stores in it changes the model."""
    if model.config is None:
        model.config = Config(model.path, model.checkpoint, {}, {}, model.num_labels, False)
    model.attributes["config"] = model.config
    return model.config


@stored_attribute_of(Model)
def _store(reader: Reader, owner: Value, name: str, value: Value, place: Place) -> None:
    """A new head or head size set on a made model: its number of labels is no longer that of its call."""
    if not isinstance(owner, Model):
        return
    owner.attributes[name] = value
    if name == "trainable":
        _freeze(owner, value, place)
    if name in HEADS:
        owner.num_labels = UNKNOWN
    if name == "config":
        owner.config = value if isinstance(value, Config) else None


@attribute_of(ModelPart)
def _inner_part(reader: Reader, value: Value, name: str, place: Place) -> Value | None:
    if not isinstance(value, ModelPart) or method_of(value, name):
        return None
    return ModelPart(value.model, f"{value.name}.{name}")


@stored_attribute_of(ModelPart)
def _store_inside(reader: Reader, owner: Value, name: str, value: Value, place: Place) -> None:
    """`model.classifier.out_proj = …` is another head; `model.base_model.requires_grad = False` freezes nothing."""
    if isinstance(owner, ModelPart) and isinstance(owner.model, Model):
        if name in HEADS:
            owner.model.num_labels = UNKNOWN
        if name == "trainable":
            _freeze(owner.model, value, place)


@subscript_of(ModelPart)
def _numbered_part(reader: Reader, value: Value, key: Value, place: Place) -> Value:
    return ModelPart(value.model, f"{value.name}[]") if isinstance(value, ModelPart) else UNKNOWN


@element_of(ModelPart)
def _each_part(reader: Reader, value: Value) -> Value:
    return ModelPart(value.model, f"{value.name}[]") if isinstance(value, ModelPart) else UNKNOWN


@called(ModelPart)
def _call_part(call: Call) -> Value:
    """A method that is not known: it may do anything to the model and to what it is given."""
    escape(call)
    return UNKNOWN


def whole(value: Value) -> Value:
    """The model that a value is, or is a part of."""
    return value.model if isinstance(value, ModelPart) else value


@method(Model, "to", "cuda", "cpu", "half", "float", "double", "bfloat16", "tie_weights")
@method(ModelPart, "to", "cuda", "cpu", "half", "float", "double", "bfloat16")
def _move(call: Call) -> Value:
    if isinstance(call.receiver, Model) and call.path.rpartition(".")[2] in {"to", "cuda", "cpu"}:
        first = call.positional[0].value if call.positional else call.value("device")
        call.reader.act(Act.TO_DEVICE, call.place, call.receiver, device=first)
    return call.receiver


@method(Model, "train", "eval")
def _set_mode(call: Call) -> Value:
    """`.train(False)` is `.eval()`; a mode that is not known may be either."""
    mode = call.value("mode", 0)
    if call.path.endswith("eval"):
        act = Act.EVAL_MODE
    elif isinstance(mode, Absent):
        act = Act.TRAIN_MODE
    else:
        act = {True: Act.TRAIN_MODE, False: Act.EVAL_MODE}.get(literal(mode) is True, Act.ESCAPE)
        act = act if isinstance(mode, Constant) and not mode.is_default else Act.ESCAPE
    call.reader.act(act, call.place, call.receiver, text=Constant(call.receiver_text))
    return call.receiver


@method(ModelPart, "train", "eval")
def _set_mode_of_part(call: Call) -> Value:
    return call.receiver


@method(Model, "parameters", "named_parameters")
@method(ModelPart, "parameters", "named_parameters")
def _parameters(call: Call) -> Value:
    named = call.path.endswith("named_parameters")
    is_part = isinstance(call.receiver, ModelPart)
    return Parameters((whole(call.receiver),), named, is_part, origin=call.place)


@element_of(Parameters)
def _each_parameter(reader: Reader, value: Value) -> Value:
    if not isinstance(value, Parameters):
        return UNKNOWN
    parameter = Parameter(value.of)
    return Sequence([Unknown(name="name"), parameter], "tuple") if value.is_named else parameter


@stored_attribute_of(Parameter)
def _freeze_parameter(reader: Reader, owner: Value, name: str, value: Value, place: Place) -> None:
    if name == "grad":
        reader.act(Act.ZERO_GRAD, place, owner)
        reader.act(Act.GRADIENT, place, owner)
    if isinstance(owner, Parameter) and name == "requires_grad":
        for model in owner.of:
            _freeze(model, value, place)
            reader.act(Act.FREEZE, place, model)


@method(Model, "requires_grad_")
@method(ModelPart, "requires_grad_")
def _require_grad(call: Call) -> Value:
    wanted = call.value("requires_grad", 0)
    _freeze(whole(call.receiver), Constant(True) if isinstance(wanted, Absent) else wanted, call.place)
    call.reader.act(Act.FREEZE, call.place, call.receiver)
    return call.receiver


def _freeze(model: Value, wanted: Value, place: Place) -> None:
    if isinstance(model, Model) and not (isinstance(wanted, Constant) and wanted.value is True):
        model.frozen.append(place)


@method(Model, "zero_grad")
def _zero_grad(call: Call) -> Value:
    call.reader.act(Act.ZERO_GRAD, call.place, call.receiver, text=Constant(call.receiver_text))
    return Constant(None)


@method(Model, "save_pretrained", "push_to_hub")
def _save(call: Call) -> Value:
    call.reader.act(Act.SAVE, call.place, call.receiver)
    return UNKNOWN


@method(Model, "resize_token_embeddings", "gradient_checkpointing_enable", "enable_input_require_grads")
@method(Model, "num_parameters", "print_trainable_parameters", "gradient_checkpointing_disable")
@method(Model, "get_input_embeddings", "get_output_embeddings", "state_dict", "named_modules", "modules")
def _changes_nothing_here(call: Call) -> Value:
    return UNKNOWN


@method(Model, "load_state_dict", "apply", "load_adapter", "set_adapter")
def _load_into(call: Call) -> Value:
    return UNKNOWN


@method(Model, "add_adapter")
def _add_adapter(call: Call) -> Value:
    if isinstance(call.receiver, Model):
        call.receiver.is_adapted = True
    return UNKNOWN
