"""A data set taken for a metric, and a metric taken for a data set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lintrain.core.place import Place
from lintrain.pipeline.call import Call
from lintrain.pipeline.pipeline import Misuse
from lintrain.pipeline.registry import method, subscript_of
from lintrain.pipeline.values.data import Dataset, DatasetDict
from lintrain.pipeline.values.python import UNKNOWN, Value
from lintrain.pipeline.values.training import Metric

if TYPE_CHECKING:
    from lintrain.pipeline.reader import Reader


@method(Metric, "map", "filter", "shuffle", "select", "train_test_split", "rename_column", "remove_columns")
@method(Metric, "set_format", "with_format", "set_transform", "with_transform", "cast_column", "class_encode_column")
def _taken_for_dataset(call: Call) -> Value:
    """A method of data sets, called on a metric."""
    return _note(call)


@method(Dataset, "compute", "add_batch", "add")
@method(DatasetDict, "compute", "add_batch", "add")
def _taken_for_metric(call: Call) -> Value:
    """A method of metrics, called on a data set."""
    return _note(call)


def _note(call: Call) -> Value:
    used = call.path.rpartition(".")[2]
    call.reader.record.misuses.append(Misuse(call.place, call.receiver, used, call.text))
    return UNKNOWN


@subscript_of(Metric)
def _subscript(reader: Reader, value: Value, key: Value, place: Place) -> Value:
    """`metric["train"]`."""
    reader.record.misuses.append(Misuse(place, value, "subscript", reader.source.code(place)))
    return UNKNOWN
