"""A data set taken for a metric."""

from __future__ import annotations

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.registry import method
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.data import Dataset, DatasetDict
from lintrain.pipeline.values.python import UNKNOWN, Value


@method(Dataset, "compute", "add_batch", "add")
@method(DatasetDict, "compute", "add_batch", "add")
def _taken_for_metric(call: Call) -> Value:
    """A method of metrics, called on a data set."""
    used = call.path.rpartition(".")[2]
    call.reader.record.misuses.append(Misuse(call.location, call.receiver, used, call.text))
    return UNKNOWN
