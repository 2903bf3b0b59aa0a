"""Modules and their parameters: frozen or freed, cast to other number formats, in train mode or in eval mode."""

from __future__ import annotations

from collections import abc

from lintrain.interpreter import inherited
from lintrain.interpreter.core import storing
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import element_of, instance_method, method, stored_attribute_of, stored_item_of
from lintrain.interpreter.grad_modes import note_change
from lintrain.interpreter.layer_shapes import OPEN, SEQUENTIAL
from lintrain.model.location import Location
from lintrain.pipeline.events import Act, Loop
from lintrain.pipeline.modules import MODULE, is_module, weight_of
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.model import Mode, Model, ModelPart, Module, Parameter, Parameters
from lintrain.pipeline.values.python import (
    ABSENT,
    UNKNOWN,
    Absent,
    Constant,
    Instance,
    Library,
    LibraryObject,
    Sequence,
    Unknown,
    Value,
    literal,
    options_of,
    text_of,
)
from lintrain.pipeline.values.tensors import unmoved
from lintrain.startup.lazy_pattern import lazy_pattern

REQUIRES_GRAD = "requires_grad"

MISSPELT = frozenset(
    {"require_grad", "require_grads", "requires_grads", "required_grad", "requiers_grad", "requires_gradient"}
)
"""Attributes that torch does not know, meant for `requires_grad`."""

CHOOSES = lazy_pattern(r"\b(if|continue|break|try|while|and|or)\b")
"""Keywords in the text of a loop that may leave some parameters out."""


def freeze(
    reader: Reader, model: Value, wanted: Value, location: Location, *, part: str = "", is_all: bool = True
) -> None:
    """Note that parameters of a model are frozen or freed: all of it, or of its part of that name."""
    # Also if what is wanted is unknown: the model may be frozen then, and rules that need it to learn stay
    # silent.
    if isinstance(model, Model) and not (isinstance(wanted, Constant) and wanted.value is True):
        model.frozen.append(location)
    reader.act(Act.FREEZE, location, model, wanted=wanted, part=Constant(part), is_all=Constant(is_all))


def note_module_attribute(reader: Reader, owner: Value, name: str, value: Value, location: Location) -> None:
    """`module.requires_grad = False` sets an attribute that torch never reads; other attributes may be new parts."""
    if name == REQUIRES_GRAD or name in MISSPELT:
        use = REQUIRES_GRAD if literal(value) is False else "unfreeze" if literal(value) is True else ""
        if use:
            reader.record.misuses.append(Misuse(location, owner, use, reader.code(location)))
    else:
        reader.act(Act.REPLACE, location, owner, name=Constant(name), value=value)


@stored_item_of(Module)
@stored_item_of(ModelPart)
def _store_item(reader: Reader, owner: Value, key: Value, value: Value, location: Location) -> None:
    """`model.classifier[6] = …` is a new part, whose parameters learn; `layer.weight[0] = …` changes a weight."""
    if weight_of(owner) is not None:
        note_change(reader, owner, location, reader.code(location))
        return
    if isinstance(owner, Module) and owner.path == SEQUENTIAL:
        position = literal(key)
        is_known = isinstance(position, int) and -len(owner.parts) <= position < len(owner.parts)
        if isinstance(position, int) and is_known and not reader.conditions:
            owner.parts[position] = value
        else:
            owner.arguments[OPEN] = UNKNOWN
    reader.act(Act.REPLACE, location, owner, name=key, value=value)


@stored_item_of(LibraryObject)
@stored_item_of(Parameter)
def _store_in_parameter(reader: Reader, owner: Value, key: Value, value: Value, location: Location) -> None:
    note_change(reader, owner, location, reader.code(location))


@element_of(Parameters)
def _each_parameter(reader: Reader, value: Value) -> Value:
    if not isinstance(value, Parameters):
        return UNKNOWN
    parameter = Parameter(value.of, value.part)
    return Sequence([Unknown(name="name"), parameter], "tuple") if value.is_named else parameter


@stored_attribute_of(Parameter)
def _store_on_parameter(reader: Reader, owner: Value, name: str, value: Value, location: Location) -> None:
    if not isinstance(owner, Parameter):
        return
    # `p.grad = None` clears the gradient, and is code that handles gradients by itself at the same time.
    if name == "grad":
        reader.act(Act.ZERO_GRAD, location, owner)
        reader.act(Act.GRADIENT, location, owner)
    if name == "data":
        for model in owner.of:
            reader.act(Act.CAST, location, model, dtype=UNKNOWN)
    if name == REQUIRES_GRAD:
        _switch(reader, owner, value, location)
    if name in MISSPELT and isinstance(literal(value), bool):
        reader.record.misuses.append(Misuse(location, owner, REQUIRES_GRAD, reader.code(location)))


@method(Parameter, "requires_grad_")
def _switch_in_place(call: Call) -> Value:
    if isinstance(call.receiver, Parameter):
        _switch(call.reader, call.receiver, _wanted(call), call.location)
    return call.receiver


def _switch(reader: Reader, parameter: Parameter, wanted: Value, location: Location) -> None:
    is_all = _is_each(reader, parameter)
    for model in parameter.of:
        freeze(reader, model, wanted, location, part=parameter.part, is_all=is_all)


def _is_each(reader: Reader, parameter: Parameter) -> bool:
    """Whether the loop around iterates over all parameters and leaves none out."""
    if not reader.loops or _leaves_out(reader, reader.loops[-1]):
        return False
    over = options_of(reader.loops[-1].over)
    if not all(isinstance(each, Parameters) for each in over) or not _gives(reader.loops[-1], parameter):
        return False
    return len(over) == 1 or all(_is_one_of_all(reader, reader.loops[-2:-1], module) for module in parameter.of)


def _gives(loop: Loop, parameter: Parameter) -> bool:
    return any(
        each is parameter or (isinstance(each, Sequence) and parameter in each.items) for each in options_of(loop.each)
    )


def _is_one_of_all(reader: Reader, loops: abc.Sequence[Loop], module: Value) -> bool:
    """Whether one of several modules is meant because a loop iterates over a list of them, and over all of it."""
    # `net = a if flag else b` is several modules too, of which one is frozen, and no one knows which.
    return any(
        isinstance(loop.over, Sequence)
        and loop.over.is_complete
        and any(each is module for each in options_of(loop.each))
        and not _leaves_out(reader, loop)
        for loop in loops
    )


def _leaves_out(reader: Reader, loop: Loop) -> bool:
    # The text of the loop is searched, since a condition may choose by name: `if "classifier" not in
    # name:`.
    return CHOOSES.search(reader.code(loop.location)) is not None


def _wanted(call: Call) -> Value:
    given = call.value("requires_grad", 0)
    return Constant(True) if isinstance(given, Absent) else given


@method(Model, "requires_grad_")
@method(ModelPart, "requires_grad_")
@method(Module, "requires_grad_")
@method(Unknown, "requires_grad_")
@instance_method(MODULE, "requires_grad_")
def _switch_module(call: Call) -> Value:
    module = unmoved(call.receiver)
    owner, part = (module.model, module.name) if isinstance(module, ModelPart) else (module, "")
    is_one = not call.reader.alternatives or _is_one_of_all(call.reader, call.reader.loops[-1:], module)
    # What is not understood may be a parameter, or a tensor.
    is_all = is_one and not isinstance(module, Unknown)
    freeze(call.reader, owner, _wanted(call), call.location, part=part, is_all=is_all)
    return call.receiver


@stored_attribute_of(Instance)
def _store_on_object(reader: Reader, owner: Value, name: str, value: Value, location: Location) -> None:
    if not isinstance(owner, Instance):
        return
    if inherited.store_attribute(owner, name, value):
        return
    owner.attributes[name] = storing.weakly(reader, owner.attributes.get(name), value, f"self.{name}")
    if is_module(owner) and (name == REQUIRES_GRAD or name in MISSPELT) and owner.cls.lookup(name) is None:
        note_module_attribute(reader, owner, name, value, location)


BY_METHOD = {"half": "float16", "bfloat16": "bfloat16", "float": "float32", "double": "float64"}
BY_NAME = {"half": "float16", "float": "float32", "double": "float64"}
FORMATS = frozenset({"float16", "bfloat16", "float32", "float64"})


def move(call: Call) -> Value:
    """A model or network that a call moves to a device, or casts: both happen in place."""
    if not isinstance(call.receiver, ModelPart) and call.path.rpartition(".")[2] in {"to", "cuda", "cpu"}:
        first = call.positional[0].value if call.positional else call.value("device")
        call.reader.act(Act.TO_DEVICE, call.location, call.receiver, device=first)
    cast(call)
    return call.receiver


def cast(call: Call) -> None:
    """Note that a call changes, or may change, the number format of a model's weights."""
    dtype = _asked_for(call)
    if isinstance(call.receiver, ModelPart):
        # A part of the model gets another format: what the whole has then is mixed, so the format of the
        # whole is unknown.
        dtype = UNKNOWN if not isinstance(dtype, Absent) else dtype
        subject = call.receiver.model
    else:
        subject = call.receiver
    if (isinstance(subject, Model) or is_module(subject)) and not isinstance(dtype, Absent):
        call.reader.act(Act.CAST, call.location, subject, dtype=dtype)


def _asked_for(call: Call) -> Value:
    """The format that a call asks for; Absent if it only moves, Unknown if that is not known."""
    name = call.path.rpartition(".")[2]
    if name in BY_METHOD:
        return Constant(BY_METHOD[name])
    if name != "to":
        return ABSENT
    if call.is_open or "**" in call.keywords:
        return UNKNOWN
    given = [argument.value for argument in (*call.positional, *call.keywords.values())]
    formats = [found for value in given if (found := dtype_of(value)) is not None]
    if formats:
        return Constant(formats[0])
    named = call.keywords.get("dtype")
    # `model.to(device)` only moves. With a second argument that is not known, `to(device, dtype)`, it may
    # cast.
    return UNKNOWN if named is not None or any(isinstance(value, Unknown) for value in given[1:]) else ABSENT


def dtype_of(value: Value) -> str | None:
    """The number format that a value certainly names (`torch.half`, `"bfloat16"`), None if it names none."""
    if isinstance(value, Library) and value.path.startswith("torch."):
        name = value.path.removeprefix("torch.")
    elif isinstance(value, Constant) and not value.default:
        name = (text_of(value) or "").removeprefix("torch.")
    else:
        return None
    name = BY_NAME.get(name, name)
    return name if name in FORMATS else None


def mode_of(reader: Reader, module: Value) -> Mode:
    """The mode that a module has now."""
    name = module.name if isinstance(module, Unknown) else "model"
    return Mode(name=f"{name}.training", of=module, made_at=len(reader.record.events))


MOVED = lazy_pattern(r"(?:\.(?:to|cuda|cpu|float|half|double|bfloat16)\([^()]*\))+$")
"""What moves the module whose mode is set: `model.to(device).eval()`."""


def set_mode(call: Call) -> Value:
    """Note which mode `train` or `eval` sets: `.train(False)` is `.eval()`."""
    mode, receiver = call.value("mode", 0), unmoved(call.receiver)
    text = Constant(MOVED.sub("", call.receiver_text))
    if isinstance(mode, Mode) and mode.of is receiver and not call.path.endswith("eval"):
        since = Constant(mode.made_at)
        call.reader.act(Act.RESTORE_MODE, call.location, receiver, text=text, since=since)
    else:
        call.reader.act(_act_of(call, mode), call.location, receiver, text=text)
    return call.receiver


def _act_of(call: Call, mode: Value) -> Act:
    if call.path.endswith("eval"):
        return Act.EVAL_MODE
    if isinstance(mode, Absent):
        return Act.TRAIN_MODE
    # `model.train(mode)` with an unknown mode: after it, neither mode is certain.
    if not isinstance(mode, Constant) or mode.default:
        return Act.ESCAPE
    return Act.TRAIN_MODE if mode.value else Act.EVAL_MODE
