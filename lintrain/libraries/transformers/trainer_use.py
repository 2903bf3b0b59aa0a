"""Using a Trainer: training, evaluating, and what the script sets on it after it was made."""

from __future__ import annotations

from lintrain.interpreter import objects
from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import attribute_of, method, method_of, stored_attribute_of
from lintrain.libraries.transformers.predictions import predictions_of, read_metric_function
from lintrain.model.location import Location
from lintrain.pipeline.events import Act
from lintrain.pipeline.values.python import UNKNOWN, Absent, Constant, Function, Value, join
from lintrain.pipeline.values.training import TrainerRun


@attribute_of(TrainerRun)
def _attribute(reader: Reader, value: Value, name: str, location: Location) -> Value | None:
    """What was set on it, a method of the script's subclass, an argument of its constructor, a method of Trainer."""
    if not isinstance(value, TrainerRun):
        return None
    if name in value.attributes:
        return value.attributes[name]
    if value.instance is not None:
        found = value.instance.cls.lookup(name)
        if found is not None:
            return objects.bind_member(reader, value.instance, name, *found, location)
    if method_of(value, name) is not None:
        return None
    known = value.value(name)
    return dispatch.child(reader, value, name) if isinstance(known, Absent) or known is UNKNOWN else known


@stored_attribute_of(TrainerRun)
def _store(reader: Reader, owner: Value, name: str, value: Value, location: Location) -> None:
    """`trainer.eval_dataset = …`; a function put over a method counts as an override."""
    if not isinstance(owner, TrainerRun):
        return
    before = owner.value(name)
    kept = UNKNOWN if isinstance(before, Absent) else before
    owner.attributes[name] = join([kept, value]) if reader.conditions else value
    if isinstance(value, Function) and name not in {"compute_metrics", "data_collator"}:
        owner.overrides |= {name}
    if name == "compute_metrics":
        read_metric_function(reader, owner, location)


@method(TrainerRun, "train", "hyperparameter_search")
def _train(call: Call) -> Value:
    if isinstance(call.receiver, TrainerRun):
        call.receiver.train_calls.append(call.location)
        call.reader.act(Act.TRAIN, call.location, call.receiver, **call.values("resume_from_checkpoint"))
    return UNKNOWN


@method(TrainerRun, "evaluate")
def _evaluate(call: Call) -> Value:
    """Evaluating may be given a data set of its own."""
    if isinstance(call.receiver, TrainerRun):
        given = call.values("eval_dataset")
        dataset = call.value("eval_dataset", 0)
        call.reader.act(Act.EVALUATE, call.location, call.receiver, **{**given, "eval_dataset": dataset})
    return UNKNOWN


@method(TrainerRun, "predict")
def _predict(call: Call) -> Value:
    if not isinstance(call.receiver, TrainerRun):
        return UNKNOWN
    call.reader.act(Act.EVALUATE, call.location, call.receiver, test_dataset=call.value("test_dataset", 0))
    return predictions_of(call.reader, call.receiver, call.location)


@method(TrainerRun, "save_model", "save_state", "push_to_hub", "create_model_card")
def _save(call: Call) -> Value:
    call.reader.act(Act.SAVE, call.location, call.receiver)
    return UNKNOWN


@method(TrainerRun, "add_callback", "remove_callback", "log", "log_metrics", "save_metrics", "is_world_process_zero")
def _harmless(call: Call) -> Value:
    return Constant(None)
