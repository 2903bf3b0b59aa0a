"""Running models: what calling one gives, and what its output holds."""

from __future__ import annotations

from dataclasses import replace

from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.module_parts import runs_inside_a_forward
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import attribute_of, called, held_by, method, subscript_of, unpacked
from lintrain.interpreter.shapes import integer
from lintrain.libraries.transformers.model_use import HEADS
from lintrain.model.location import Location
from lintrain.pipeline.events import Act
from lintrain.pipeline.values.model import Model, ModelOutput, Role, Task, Tensor
from lintrain.pipeline.values.python import UNKNOWN, Constant, Value
from lintrain.pipeline.values.tensors import CLASSES, Operation, Shape
from lintrain.pipeline.values.training import ModelCall

PER_TOKEN = frozenset({Task.CAUSAL_LM, Task.MASKED_LM, Task.SEQ2SEQ_LM, Task.TOKEN_CLASSIFICATION})
"""Heads whose logits have the shape [rows, tokens, classes]."""


@called(Model)
def _forward(call: Call) -> Value:
    """Calling a model runs it; whether it was given labels decides what its output holds first."""
    _write_out(call)
    given = None if "**" in call.keywords or call.is_open or len(call.positional) > 1 else "labels" in call.keywords
    given = True if "labels" in call.keywords else given
    values = {name: argument.value for name, argument in call.keywords.items()}
    if call.positional:
        values["0"] = call.positional[0].value
    if not runs_inside_a_forward(call.reader):
        call.reader.act(Act.FORWARD, call.location, call.receiver, **values)
    output = ModelOutput(call.receiver, given, origin=call.location)
    if isinstance(call.receiver, Model) and call.receiver.framework == "torch":
        named = {str(index): argument for index, argument in enumerate(call.positional)} | call.keywords
        off = call.reader.without_grad > 0
        call.reader.record.model_calls.append(ModelCall(call.receiver, call.location, named, output, off))
    return output


def _write_out(call: Call) -> None:
    """Take the known entries of a `**batch` that is no dictionary of the script's own."""
    batch = call.keywords.get("**")
    entries = held_by(batch.value)[0] if batch else {}
    for name, value in entries.items():
        if batch and isinstance(name, str):
            call.keywords.setdefault(name, replace(batch, value=value, source=None))


@attribute_of(ModelOutput)
def _output(reader: Reader, value: Value, name: str, location: Location) -> Value | None:
    if not isinstance(value, ModelOutput):
        return None
    role = {"loss": Role.LOSS, "logits": Role.LOGITS, "last_hidden_state": Role.HIDDEN}.get(name)
    if role is None:
        return dispatch.child(reader, value, name)
    value.reads.add(name)
    if role is Role.HIDDEN:
        return Tensor(role, value.model, reader.code(location), origin=location)
    text = reader.code(location)
    shape = Shape((), False) if role is Role.LOSS else _logits_shape(value.model)
    made = Operation(role.value, location, text) if _has_its_own_head(value.model) else None
    return Tensor(role, value.model, text, made, shape, "float", origin=location)


def _has_its_own_head(model: Value) -> bool:
    return isinstance(model, Model) and not set(model.attributes) & HEADS and model.path.startswith("transformers.")


def _logits_shape(model: Value) -> Shape:
    """A row of scores for every token, or for every text."""
    if not isinstance(model, Model) or not _has_its_own_head(model):
        return Shape()
    if model.task in PER_TOKEN:
        return Shape((None, None, CLASSES), False)
    if model.task is Task.SEQUENCE_CLASSIFICATION:
        return Shape((None, integer(model.num_labels)), False)
    return Shape()


@subscript_of(ModelOutput)
def _output_item(reader: Reader, value: Value, key: Value, location: Location) -> Value:
    if not isinstance(value, ModelOutput) or not isinstance(key, Constant):
        return UNKNOWN
    if isinstance(key.value, str):
        return dispatch.attribute(reader, value, key.value, location)
    first = {True: "loss", False: "logits"}.get(value.has_labels) if value.has_labels is not None else None
    names = {0: first, 1: "logits" if value.has_labels else None}
    name = names.get(key.value) if isinstance(key.value, int) else None
    return dispatch.attribute(reader, value, name, location) if name else UNKNOWN


@unpacked(ModelOutput)
def _unpack_output(reader: Reader, value: Value, count: int) -> list[Value] | None:
    """`loss, logits = model(…)`: the tuple of older versions, or of `return_dict=False`."""
    if not isinstance(value, ModelOutput) or not value.has_labels or count < 2:
        return None
    value.reads |= {"loss", "logits"}
    parts: list[Value] = [Tensor(Role.LOSS, value.model), Tensor(Role.LOGITS, value.model)]
    return [*parts, *([UNKNOWN] * (count - 2))]


@method(Model, "generate")
def _generate(call: Call) -> Value:
    return Tensor(Role.TOKENS, call.receiver, call.text, origin=call.location)
