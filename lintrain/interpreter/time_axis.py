"""What layers with time on their first axis give, where the code takes that axis for the rows of the batch."""

from __future__ import annotations

from collections.abc import Sequence

from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.layer_shapes import argument_of
from lintrain.interpreter.shapes import integer
from lintrain.interpreter.tracing import key_kind
from lintrain.model.location import Location
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.model import Model, Module, Role, Task, Tensor
from lintrain.pipeline.values.python import Absent, Constant, Slice, Value, is_true, literal
from lintrain.startup.lazy_pattern import lazy_pattern

RECURRENT = frozenset({"LSTM", "GRU", "RNN"})

BATCH_FIRST = {"LSTM": 4, "GRU": 4, "RNN": 5, "TransformerEncoderLayer": 6, "MultiheadAttention": 8}
"""The position of `batch_first` among the arguments of layers that have time on their first axis without it."""

LAST_ROW, FIRST_ROW = "last row of a sequence", "first row of a sequence"
"""The uses of what such a layer gives when a row of the batch is taken in place of a token."""

LAST_OF_BOTH = "last step of both directions"
"""The use of what a bidirectional layer gives when its last step is taken, which one direction has just begun with."""

OVER_ROWS = "mean over rows of a sequence"
"""The use of what such a layer gives when the rows of the batch are averaged in place of the tokens."""


def with_time_first(module: Module) -> Module | None:
    """The layer that certainly has time on its first axis: the module, or the layer of which an encoder has several."""
    layer = argument_of(module, "encoder_layer", 0) if module.name == "TransformerEncoder" else module
    if not isinstance(layer, Module) or layer.name not in BATCH_FIRST or not layer.path.startswith("torch.nn."):
        return None
    first = argument_of(layer, "batch_first", BATCH_FIRST[layer.name])
    return layer if isinstance(first, Absent) or literal(first) is False else None


def note_row(reader: Reader, tensor: Tensor, keys: Sequence[Value], location: Location) -> None:
    """Record `states[:, -1]` of a layer that has time on its first axis, so that this is the last row of the batch."""
    _note_last_step(reader, tensor, keys, location)
    _note_prompt_cut(reader, tensor, keys, location)
    layer = _layer_behind(tensor)
    if layer is None or len(keys) < 2 or key_kind(keys[0]) != "all":
        return
    position = integer(keys[1])
    # The first state of a recurrent layer is seldom taken, the first token of an encoder stands for the whole text.
    if position == -1 or (position == 0 and layer.name not in RECURRENT):
        use = LAST_ROW if position else FIRST_ROW
        reader.record.misuses.append(Misuse(location, _of(tensor, layer), use, layer.name))


PROMPT_CUT = "prompt cut"
"""The use of what an encoder-decoder generated as if it began with the prompt."""

LENGTH = lazy_pattern(r"(?:\.size\(-?1\)|\.shape\[-?1\]|\blen\(.*\)|\w*_len(?:gth)?)\s*:\s*\]$")

ENCODER_DECODERS = lazy_pattern(
    r"ForSeq2SeqLM$|Bart|T5|Pegasus|Marian|Blenderbot|^LED|ProphetNet|M2M100|Whisper|FSMT|Nllb|SwitchTransformers"
)
ONE_ROW = lazy_pattern(r"\w\[\w+\]$")


def _note_prompt_cut(reader: Reader, tensor: Tensor, keys: Sequence[Value], location: Location) -> None:
    """Record `out[:, ids.size(1):]` of an encoder-decoder, whose output holds nothing of what it was given."""
    model, cut = tensor.model, keys[-1] if keys else None
    if tensor.role is not Role.TOKENS or not isinstance(model, Model) or model.task is not Task.SEQ2SEQ_LM:
        return
    # Models of images and audio are called the same, and most of them are decoders that return their prompt.
    if ENCODER_DECODERS.search(model.name) is None:
        return
    is_end = isinstance(cut, Slice) and not isinstance(cut.lower, Absent | Constant) and isinstance(cut.upper, Absent)
    is_whole = not tensor.is_sliced or ONE_ROW.search(tensor.text) is not None
    if is_end and is_whole and LENGTH.search(reader.code(location)):
        reader.record.misuses.append(Misuse(location, tensor, PROMPT_CUT, reader.code(location)))


def _note_last_step(reader: Reader, tensor: Tensor, keys: Sequence[Value], location: Location) -> None:
    """Record `states[:, -1]` of a bidirectional layer, with the states of both directions."""
    module, made = tensor.model, tensor.made
    if made is None or not isinstance(module, Module) or made.name != module.name.lower():
        return
    both = argument_of(module, "bidirectional", 6 if module.name != "RNN" else 7)
    is_whole = not tensor.is_sliced and not tensor.is_reshaped and module.path.startswith("torch.nn.")
    if module.name not in RECURRENT or not is_true(both) or not is_whole:
        return
    time = 0 if with_time_first(module) else 1
    # The last hidden states have a layer on their first axis, and the width of one direction.
    size, width = integer(argument_of(module, "hidden_size", 1)), tensor.shape.last
    is_states = width == 2 * size if size is not None and width is not None else time == 1 and width is None
    if not is_states:
        return
    others = [key_kind(key) for axis, key in enumerate(keys) if axis != time]
    if len(keys) > time and integer(keys[time]) == -1 and set(others) <= {"all"}:
        reader.record.misuses.append(Misuse(location, _of(tensor, module), LAST_OF_BOTH, module.name))


def note_average(reader: Reader, tensor: Tensor, axis: Value, location: Location) -> None:
    """Record `states.mean(1)` of such a layer, which averages the rows of the batch."""
    layer = _layer_behind(tensor)
    if layer is not None and integer(axis) == 1:
        reader.record.misuses.append(Misuse(location, _of(tensor, layer), OVER_ROWS, layer.name))


def _of(tensor: Tensor, layer: Module) -> Tensor:
    return Tensor(model=layer, shape=tensor.shape, origin=tensor.origin)


def _layer_behind(tensor: Tensor) -> Module | None:
    """The layer with time first whose states a tensor holds as they are."""
    made, module = tensor.made, tensor.model
    is_whole = not tensor.is_sliced and not tensor.is_reshaped and tensor.shape.rank != 2
    if made is None or not isinstance(module, Module) or made.name != module.name.lower() or not is_whole:
        return None
    return with_time_first(module)
