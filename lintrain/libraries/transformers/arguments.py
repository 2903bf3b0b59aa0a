"""Training arguments of transformers and TRL: what the script sets in the call or later, or leaves to the user."""

from __future__ import annotations

from lintrain.interpreter import classes, objects
from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import (
    Transfer,
    attribute_of,
    base_call,
    family,
    function,
    method,
    method_of,
    stored_attribute_of,
)
from lintrain.interpreter.functions import attribute_default
from lintrain.knowledge.trainers import TRAINING_ARGUMENTS, is_training_arguments
from lintrain.model.location import Location
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Absent,
    Class,
    Constant,
    Instance,
    Library,
    LibraryObject,
    Value,
    join,
)
from lintrain.pipeline.values.training import TrainingArguments


@family("transformers")
@family("trl")
def _training_arguments(path: str) -> Transfer | None:
    return _arguments if is_training_arguments(path) else None


def _arguments(call: Call) -> Value:
    """What the call sets; the first parameter of all of them is `output_dir`."""
    return make_arguments(call, call.path, {})


@base_call(TRAINING_ARGUMENTS)
def _own_arguments(call: Call) -> Value:
    """An object of the script's own subclass: its fields set defaults, its constructor may do more."""
    cls = call.receiver
    if not isinstance(cls, Class):
        return UNKNOWN
    made = make_arguments(call, _library_class(cls), own_defaults(call, cls))
    # Its own constructor may set any argument after the call.
    made.is_complete = made.is_complete and not {"__init__", "__post_init__"} & set(_own_names(cls))
    return made


def make_arguments(call: Call, path: str, defaults: dict[str, Value]) -> TrainingArguments:
    """The arguments object of a call; `defaults` are used for arguments that the call does not give."""
    given = call.named("output_dir")
    made = TrainingArguments(
        path,
        {**defaults, **{name: argument.value for name, argument in given.items()}},
        {name: argument.keyword or argument.location for name, argument in given.items()},
        not call.is_open and "**" not in given,
        call.text,
        origin=call.location,
    )
    call.reader.record.arguments.append(made)
    return made


def from_command_line(call: Call, kind: Value) -> TrainingArguments | None:
    """The arguments that HfArgumentParser fills, any of them set by the user perhaps; None for other classes."""
    if isinstance(kind, Library) and is_training_arguments(kind.path):
        path, defaults = kind.path, dict[str, Value]()
    elif isinstance(kind, Class) and _library_class(kind):
        path, defaults = _library_class(kind), own_defaults(call, kind)
    else:
        return None
    # Everything may come from the command line, so nothing that is not set in the class has a certain
    # value.
    values = {name: attribute_default(value) for name, value in defaults.items()}
    made = TrainingArguments(path, values, {}, False, call.text, origin=call.location)
    call.reader.record.arguments.append(made)
    return made


def _library_class(cls: Class) -> str:
    """The library's arguments class that a script's class derives from; empty if it does not."""
    return next((path for path in cls.library_bases if is_training_arguments(path)), "")


def _own_names(cls: Class) -> list[str]:
    return [name for owner in cls.lineage() for name in owner.attributes]


def own_defaults(call: Call, cls: Class) -> dict[str, Value]:
    """The fields that a script's subclass gives a default of its own."""
    defaults = {name: objects.field_default(call, cls, name) for name in classes.fields_of(cls)}
    return {name: value for name, value in defaults.items() if not isinstance(value, Absent)}


@attribute_of(TrainingArguments)
def _read(reader: Reader, value: Value, name: str, location: Location) -> Value | None:
    if not isinstance(value, TrainingArguments) or method_of(value, name):
        return None
    known = value.values.get(name)
    if known is None and name == "predict_with_generate" and value.is_complete:
        return Constant(False)
    return known if known is not None else dispatch.child(reader, value, name)


@stored_attribute_of(TrainingArguments)
def _store(reader: Reader, owner: Value, name: str, value: Value, location: Location) -> None:
    if isinstance(owner, TrainingArguments):
        before = owner.values.get(name, UNKNOWN)
        owner.values[name] = join([before, value]) if reader.conditions else value
        # Findings point at the last place that sets the argument, since that one decides.
        owner.locations[name] = location


@method(TrainingArguments, "set_training", "set_evaluate", "set_testing", "set_save", "set_logging")
@method(TrainingArguments, "set_optimizer", "set_lr_scheduler", "set_dataloader", "set_push_to_hub")
def _set_many(call: Call) -> Value:
    """These set several arguments, their names differ from the constructor's: nothing is certain any more."""
    if isinstance(call.receiver, TrainingArguments):
        call.receiver.is_complete = False
    return call.receiver


@function("dataclasses.replace")
def _replace(call: Call) -> Value:
    before = call.value("obj", 0)
    if isinstance(before, Instance) and not call.is_open and "**" not in call.keywords:
        given = {name: argument.value for name, argument in call.keywords.items()}
        return Instance(before.cls, {**before.attributes, **given}, origin=call.location)
    if not isinstance(before, TrainingArguments):
        return LibraryObject(call.path, call.values(), origin=call.location)
    changed = {name: argument for name, argument in call.keywords.items() if name != "**"}
    return TrainingArguments(
        before.path,
        {**before.values, **{name: argument.value for name, argument in changed.items()}},
        {**before.locations, **{name: argument.location for name, argument in changed.items()}},
        before.is_complete and not call.is_open and "**" not in call.keywords,
        before.text,
        origin=call.location,
    )
