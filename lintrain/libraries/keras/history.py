"""What `fit` of Keras returns: the numbers of its epochs, which are no network."""

from __future__ import annotations

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.registry import method
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.python import UNKNOWN, LibraryObject, Value
from lintrain.startup.lazy_dataclass import dataclass

OF_NETWORKS = "method of a network"
"""The use of a history as if it were the network that was fitted."""


@dataclass(eq=False, slots=True)
class History(LibraryObject):
    """The history that `fit` returns."""


def history_of(call: Call) -> Value:
    """The history of a call of `fit`."""
    return History("keras.callbacks.History", origin=call.location)


@method(History, "compile", "evaluate", "fit", "predict", "save", "save_weights", "summary")
@method(History, "get_weights", "load_weights", "predict_on_batch", "to_json")
def _of_network(call: Call) -> Value:
    """A method that the network has: `model = model.fit(…)` gives its name to the history."""
    if not call.reader.guards:
        name = call.path.rpartition(".")[2]
        call.reader.record.misuses.append(Misuse(call.location, call.receiver, OF_NETWORKS, name))
    return UNKNOWN
