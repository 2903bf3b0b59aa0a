"""Keras where less is known: a loss object that is called on the output of a network, and models made elsewhere."""

from __future__ import annotations

from lintrain.interpreter import invocation
from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.call import Call, escape
from lintrain.interpreter.core.registry import Transfer, called, family, instance_called, method
from lintrain.libraries.keras.history import history_of
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.model import Layer
from lintrain.pipeline.values.python import UNKNOWN, Constant, Function, Instance, LibraryObject, Unknown, Value
from lintrain.pipeline.values.training import KerasRun
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(eq=False, slots=True)
class LossObject(LibraryObject):
    """A loss of Keras, made from its class."""


@family("keras")
def _loss(path: str) -> Transfer | None:
    package, _, name = path.rpartition(".")
    return _make_loss if package == "keras.losses" and name[:1].isupper() else None


def _make_loss(call: Call) -> Value:
    return LossObject(call.path, call.values(), origin=call.location)


@called(LossObject)
def _compare(call: Call) -> Value:
    """`loss_object(labels, predictions)` says what a run compares, as `compile` does."""
    loss = call.receiver
    output = call.argument("y_pred", 1)
    made = loss.origin or call.location
    if output is None or not isinstance(output.value, Layer) or not output.value.path:
        escape(call)
        return UNKNOWN
    runs = call.reader.record.keras_runs
    is_known = any(
        isinstance(run.output, Layer) and run.output.made == output.value.made and run.value("loss") is loss
        for run in runs
    )
    if not is_known:
        compared = {"loss": Argument(loss, made)}
        runs.append(KerasRun(UNKNOWN, made, compared, is_complete=False, output=output.value))
    return UNKNOWN


@instance_called("keras.Model")
@instance_called("keras.models.Model")
def _run(call: Call) -> Value:
    """`model(images)` of a script's own class: what its `call` returns."""
    model = call.receiver
    found = model.cls.lookup("call") if isinstance(model, Instance) else None
    if found is None or not isinstance(found[1], Function):
        escape(call)
        return UNKNOWN
    return invocation.run_function(call, found[1], model, found[0])


@method(Unknown, "compile")
def _compile_other(call: Call) -> Value:
    """`model.compile(optimizer=…, loss=…)` of a network that is made elsewhere."""
    named = {"loss", "optimizer"} <= call.keywords.keys() or {"loss", "metrics"} <= call.keywords.keys()
    if not named:
        return dispatch.invoke(call, dispatch.child(call.reader, call.receiver, "compile"))
    given = call.named("optimizer", "loss", "metrics")
    model = Unknown(name=_owner(call)) if call.receiver is UNKNOWN else call.receiver
    call.reader.record.keras_runs.append(KerasRun(model, call.location, given, is_complete=not call.is_open))
    escape(call)
    return Constant(None)


@method(Unknown, "fit", "fit_generator")
def _fit_other(call: Call) -> Value:
    """`fit` of a network that such a `compile` has prepared, or that gets what only a network of Keras takes."""
    runs = call.reader.record.keras_runs
    run = next((run for run in reversed(runs) if _is_same(call, run.model)), None)
    name = call.path.rpartition(".")[2]
    is_of_keras = not OF_KERAS.isdisjoint(call.keywords) or {"callbacks", "epochs"} <= call.keywords.keys()
    if run is None and is_of_keras:
        run = KerasRun(Unknown(name=_owner(call)) if call.receiver is UNKNOWN else call.receiver, None)
        runs.append(run)
    if run is not None and name == "fit":
        run.fits.append((call.location, call.named("x", "y", "batch_size", "epochs")))
    elif run is not None:
        given = call.named("generator")
        run.fits.append((call.location, {("x" if key == "generator" else key): each for key, each in given.items()}))
    result = dispatch.invoke(call, dispatch.child(call.reader, call.receiver, name))
    return result if run is None else history_of(call)


def _owner(call: Call) -> str:
    """The code of what a method is called on: `model` of `model.fit(…)`."""
    return call.text.partition("(")[0].rpartition(".")[0]


def _is_same(call: Call, model: Value) -> bool:
    """Whether a method is called on a model; an unknown one is known by its name."""
    if call.receiver is not UNKNOWN:
        return model is call.receiver
    return isinstance(model, Unknown) and bool(model.name) and model.name == _owner(call)


OF_KERAS = frozenset({"validation_data", "validation_split", "steps_per_epoch"})
"""Arguments of `fit` by which it is that of a network of Keras, whatever made it."""
