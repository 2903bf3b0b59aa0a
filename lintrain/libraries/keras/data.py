"""What Keras trains on: `tf.data` data sets, and Hugging Face data sets turned into them."""

from __future__ import annotations

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.registry import function, method
from lintrain.pipeline.values.data import Dataset, Slices
from lintrain.pipeline.values.model import Model
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Absent,
    Constant,
    Literal,
    Mapping,
    Sequence,
    Unknown,
    Value,
    is_missing,
)


@function("tensorflow.data.Dataset.from_tensor_slices", "tensorflow.data.Dataset.from_tensors")
def _slices(call: Call) -> Value:
    return Slices(call.value("tensors", 0), origin=call.location)


@method(Slices, "batch", "shuffle", "prefetch", "cache", "repeat", "take", "skip", "with_options", "shard", "unbatch")
def _same_rows(call: Call) -> Value:
    return call.receiver


@method(Slices, "map", "filter", "padded_batch", "apply", "interleave")
def _other_rows(call: Call) -> Value:
    return Slices(UNKNOWN, origin=call.location)


@method(Dataset, "to_tf_dataset")
def _to_tf(call: Call) -> Value:
    """The columns as a dictionary, and beside it the label columns where any are named."""
    columns, labels = call.value("columns", 0), call.value("label_cols", 4)
    names = columns.items if isinstance(columns, Sequence) and columns.is_complete else [columns]
    if not is_missing(labels) or not all(isinstance(name, Constant) for name in names):
        return Slices(UNKNOWN, origin=call.location)
    entries = {name.value: Unknown(name="column") for name in names if isinstance(name, Constant)}
    return Slices(Mapping(dict[Literal, Value](entries), not isinstance(columns, Absent)), origin=call.location)


@method(Model, "prepare_tf_dataset")
def _prepare_tf(call: Call) -> Value:
    """The labels come beside the inputs, as the model needs them."""
    return Slices(UNKNOWN, origin=call.location)
