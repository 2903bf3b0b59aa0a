"""What a Trainer's metric function will get: the model's predictions and the labels, as far as they are known.

Running models: what calling one gives, and what its output holds.
"""

from __future__ import annotations

from dataclasses import replace

from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.module_parts import runs_inside_a_forward
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import attribute_of, called, held_by, method, subscript_of, unpacked
from lintrain.interpreter.shapes import integer
from lintrain.libraries.transformers.generated import note_prompt, note_right_padding
from lintrain.libraries.transformers.model_use import HEADS
from lintrain.model.location import Location
from lintrain.pipeline.events import Act
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.model import Config, Model, ModelOutput, Role, Task, Tensor
from lintrain.pipeline.values.python import (
    ABSENT,
    UNKNOWN,
    Absent,
    Bound,
    Constant,
    Function,
    Sequence,
    Slice,
    Unknown,
    Value,
    is_missing,
    text_of,
)
from lintrain.pipeline.values.tensors import CLASSES, Operation, Shape
from lintrain.pipeline.values.training import ModelCall, Predictions, TrainerRun

EXTRA_OUTPUTS = ("output_hidden_states", "output_attentions")
"""Arguments of a model or its configuration that make it give more than logits (transformers: `PreTrainedConfig`)."""

ENCODER_DECODERS = ("bart", "t5", "pegasus", "marian", "blenderbot", "led-", "prophetnet", "m2m100", "nllb")
"""Families whose output also contains the encoder's states (`encoder_last_hidden_state`)."""

FORWARD_OVERRIDES = frozenset({"prediction_step", "evaluation_loop", "prediction_loop", "evaluate", "predict"})
"""Methods of Trainer that decide what the predictions are."""


def read_metric_function(reader: Reader, run: TrainerRun, location: Location) -> None:
    """Read a Trainer's metric function on the predictions that it will get."""
    function = run.value("compute_metrics")
    if isinstance(function, Unknown | Absent | Constant):
        run.metrics = ABSENT if is_missing(function) else UNKNOWN
        return
    run.metrics = dispatch.call(reader, function, [predictions_of(reader, run, location)], location=location)


def predictions_of(reader: Reader, run: TrainerRun, location: Location) -> Predictions:
    """What the run's evaluation hands on: the logits, or what the script makes of them first."""
    model = run.value("model")
    labels = Tensor(Role.LABELS, model, "labels")
    made: Value = raw_predictions(reader, run, location)
    # Before `preprocess_logits_for_metrics`, which usually takes the logits out of the tuple.
    is_tuple = isinstance(made, Sequence)
    preprocess = run.value("preprocess_logits_for_metrics")
    if not is_missing(preprocess):
        made = dispatch.call(reader, preprocess, [made, labels], location=location)
    return Predictions(model, is_tuple, made, labels, origin=location)


def raw_predictions(reader: Reader, run: TrainerRun, location: Location) -> Value:
    """The model's logits, a tuple of them and its other outputs, generated tokens, or Unknown."""
    model = run.value("model")
    # An own method of these may return anything, and a claim about its shape would be a guess.
    if run.overrides & FORWARD_OVERRIDES or not _passes_outputs_on(reader, run, location):
        return Unknown(name="predictions")
    if run.path != "transformers.Trainer":
        generates = _generates(run)
        # Unknown is no yes: with `predict_with_generate=args.generate` the predictions are tokens or logits.
        if generates is not False:
            return Tensor(Role.TOKENS, model) if generates else Unknown(name="predictions")
    if not isinstance(model, Model):
        return Unknown(name="predictions")
    logits = Tensor(Role.LOGITS, model, "logits", shape=_logits_shape(model))
    match gives_more_than_logits(model):
        case True:
            return Sequence([logits, Tensor(Role.HIDDEN, model)], "tuple")
        case False:
            return logits
        case None:
            return Unknown(name="predictions")


def _generates(run: TrainerRun) -> bool | None:
    """Whether evaluation generates text instead of one forward pass; None if unknown."""
    if run.path != "transformers.Seq2SeqTrainer":
        return False if isinstance(run.model, Model) else None
    settings = run.settings
    wanted = settings.value("predict_with_generate") if settings else UNKNOWN
    if isinstance(wanted, Absent):
        return False
    return bool(wanted.value) if isinstance(wanted, Constant) and not wanted.default else None


def _passes_outputs_on(reader: Reader, run: TrainerRun, location: Location) -> bool:
    """Whether the run's own `compute_loss`, if it has one, returns the model's output as it is."""
    if run.instance is None or "compute_loss" not in run.overrides:
        return True
    found = run.instance.cls.lookup("compute_loss")
    if found is None or not isinstance(found[1], Function):
        return False
    method = Bound(run.instance, "compute_loss", found[1], found[0])
    given: dict[str, Value] = {"return_outputs": Constant(True)}
    # The Trainer evaluates with autograd off.
    reader.without_grad += 1
    result = dispatch.call(reader, method, [run.value("model"), Unknown(name="inputs")], given, location=location)
    reader.without_grad -= 1
    # Only `return loss, outputs` in this form passes on the model's own output; `outputs.logits` would
    # have no further parts.
    return isinstance(result, Sequence) and len(result.items) == 2 and isinstance(result.items[1], ModelOutput)


def gives_more_than_logits(model: Model) -> bool | None:
    """Whether the model's output contains other arrays than the logits; None if unknown."""
    asked = [_asked_for(model, name) for name in EXTRA_OUTPUTS]
    if True in asked:
        return True
    if None in asked:
        return None
    # Its output also has the states of the encoder, which the Trainer returns as a part of the predictions.
    if model.task is Task.SEQ2SEQ_LM:
        return True
    if model.task in {Task.NO_HEAD, Task.UNKNOWN, Task.QUESTION_ANSWERING}:
        return None
    return _is_encoder_decoder(model)


def _asked_for(model: Model, name: str) -> bool | None:
    # An argument of the model is stored in its configuration, so it is asked before what the script set there.
    value = model.arguments.get(name)
    if value is None and isinstance(model.config, Config):
        value = model.config.attributes.get(name, model.config.arguments.get(name))
    if value is None:
        return False if model.is_complete else None
    return bool(value.value) if isinstance(value, Constant) and not value.default else None


def _is_encoder_decoder(model: Model) -> bool | None:
    """Whether a classifier is built on an encoder-decoder, by the names of its class and its checkpoint."""
    checkpoint = text_of(model.checkpoint)
    names = [model.name.lower(), (checkpoint or "").lower()]
    if any(family in name for family in ENCODER_DECODERS for name in names):
        # A causal head on a checkpoint of BART is its decoder alone, which has no encoder states.
        return True if checkpoint is None or model.task is not Task.CAUSAL_LM else None
    return False


@attribute_of(Predictions)
def _part(reader: Reader, value: Value, name: str, location: Location) -> Value | None:
    if not isinstance(value, Predictions):
        return None
    return {"predictions": value.predictions, "label_ids": value.labels}.get(name, UNKNOWN)


@subscript_of(Predictions)
def _item(reader: Reader, value: Value, key: Value, location: Location) -> Value:
    if isinstance(value, Predictions) and isinstance(key, Constant) and key.value in {0, 1}:
        return value.labels if key.value else value.predictions
    return UNKNOWN


UNPACKED = "two of three"
"""The use of what `predict` gives as if it had no metrics."""

TWO = 2


@unpacked(Predictions)
def _unpack(reader: Reader, value: Value, count: int) -> list[Value] | None:
    """`predictions, labels = …`, or with the inputs or the metrics as a third."""
    if not isinstance(value, Predictions) or count < 2:
        return None
    if value.is_result and count == TWO and value.origin is not None:
        reader.record.misuses.append(Misuse(value.origin, value, UNPACKED, reader.code(value.origin)))
    return [value.predictions, value.labels, *([UNKNOWN] * (count - 2))]


PER_TOKEN = frozenset({Task.CAUSAL_LM, Task.MASKED_LM, Task.SEQ2SEQ_LM, Task.TOKEN_CLASSIFICATION})
"""Heads whose logits have the shape [rows, tokens, classes]."""


@called(Model)
@method(Model, "forward")
def _forward(call: Call) -> Value:
    """Calling a model runs it; whether it was given labels decides what its output holds first."""
    _write_out(call)
    given = None if "**" in call.keywords or call.is_open or len(call.positional) > 1 else "labels" in call.keywords
    # A name in the call is certain, whatever else `**batch` brings.
    given = True if "labels" in call.keywords else given
    values = {name: argument.value for name, argument in call.keywords.items()}
    if call.positional:
        values["0"] = call.positional[0].value
    # The `forward` of an own module calls its parts: one pass of the whole is one act of the loop.
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


OF_TENSORS = frozenset({"argmax", "backward", "detach", "item", "reshape", "size", "softmax", "squeeze", "view"})
"""Attributes of a tensor that a model's output lacks."""


@attribute_of(ModelOutput)
def _output(reader: Reader, value: Value, name: str, location: Location) -> Value | None:
    if not isinstance(value, ModelOutput):
        return None
    role = {"loss": Role.LOSS, "logits": Role.LOGITS, "last_hidden_state": Role.HIDDEN}.get(name)
    if role is None:
        if name in OF_TENSORS:
            reader.record.misuses.append(Misuse(location, value, "tensor", reader.code(location)))
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
    if not isinstance(value, ModelOutput):
        return UNKNOWN
    if isinstance(key, Slice):
        return _output_slice(reader, value, key, location)
    if not isinstance(key, Constant):
        return UNKNOWN
    if isinstance(key.value, str):
        return dispatch.attribute(reader, value, key.value, location)
    # The tuple leaves out what is None: `outputs[0]` is the loss with labels and the logits without.
    first = {True: "loss", False: "logits"}.get(value.has_labels) if value.has_labels is not None else None
    names = {0: first, 1: "logits" if value.has_labels else None}
    name = names.get(key.value) if isinstance(key.value, int) else None
    if isinstance(value.model, Model) and value.model.task is Task.NO_HEAD and name is not None:
        name = "last_hidden_state" if key.value == 0 else None
    return dispatch.attribute(reader, value, name, location) if name else UNKNOWN


def _output_slice(reader: Reader, value: ModelOutput, key: Slice, location: Location) -> Value:
    """`outputs[:2]`: loss and logits, where labels were given; what comes after them is not known."""
    lower, upper = integer(key.lower) or 0, integer(key.upper)
    known = [_output_item(reader, value, Constant(index), location) for index in range(2 if value.has_labels else 1)]
    if lower == 0 and upper is not None and 0 < upper <= len(known) and value.has_labels is not None:
        return Sequence(known[:upper], "tuple", origin=location)
    return Sequence([], "tuple", False, origin=location)


@unpacked(ModelOutput)
def _unpack_output(reader: Reader, value: Value, count: int) -> list[Value] | None:
    """`loss, logits = model(…)`: the tuple of older versions, or of `return_dict=False`."""
    if not isinstance(value, ModelOutput) or count < 2:
        return None
    if value.origin is not None:
        reader.record.misuses.append(Misuse(value.origin, value, "unpacked", reader.code(value.origin)))
    if not value.has_labels:
        return None
    value.reads |= {"loss", "logits"}
    parts: list[Value] = [Tensor(Role.LOSS, value.model), Tensor(Role.LOGITS, value.model)]
    return [*parts, *([UNKNOWN] * (count - 2))]


@method(Model, "generate")
def _generate(call: Call) -> Value:
    note_prompt(call)
    note_right_padding(call)
    return Tensor(Role.TOKENS, call.receiver, call.text, origin=call.location)
