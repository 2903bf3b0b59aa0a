"""Training arguments of transformers and TRL: what the script sets in the call or later, or leaves to the user.

Classes that are filled from the command line: HfArgumentParser, TrlParser. What they give is a default.
"""

from __future__ import annotations

import ast
from dataclasses import field

from lintrain.interpreter import functions, objects
from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import (
    Transfer,
    attribute_of,
    base_call,
    derived_call,
    family,
    function,
    method,
    method_of,
    stored_attribute_of,
)
from lintrain.knowledge.settings_files import read_json_settings, read_yaml_settings
from lintrain.knowledge.trainers import TRAINING_ARGUMENTS, is_training_arguments
from lintrain.libraries.stdlib.argparse_options import option_value
from lintrain.libraries.stdlib.paths import path_of, settings_in
from lintrain.model.location import Location
from lintrain.pipeline.record import LibraryCall
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.installed import InstalledName
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Absent,
    Class,
    Constant,
    Instance,
    Library,
    LibraryObject,
    Mapping,
    Sequence,
    Unknown,
    Value,
    is_true,
    join,
)
from lintrain.pipeline.values.training import TrainingArguments
from lintrain.startup.lazy_dataclass import dataclass


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
    made.locations = {**_field_locations(call, cls), **made.locations}
    # Its own constructor may set any argument after the call.
    made.is_complete = made.is_complete and not {"__init__", "__post_init__"} & set(_own_names(cls))
    return made


@derived_call(TRAINING_ARGUMENTS)
def _installed_arguments(call: Call) -> Value:
    """An object of an installed package's subclass: its fields set defaults, its methods may change more."""
    cls = call.receiver
    if not isinstance(cls, InstalledName):
        return UNKNOWN
    path = next(path for path in cls.facts.bases if is_training_arguments(path))
    made = make_arguments(call, path, {name: _installed_default(text) for name, text in cls.facts.fields.items()})
    made.values.update(dict.fromkeys(cls.facts.sets, UNKNOWN))
    made.is_complete = made.is_complete and cls.facts.is_closed and not cls.facts.has_hooks
    return made


def _installed_default(text: str | None) -> Value:
    """The default of a field; unknown for one that is not a literal."""
    return UNKNOWN if text in (None, "?") else Constant(ast.literal_eval(str(text)))


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
    _read_deepspeed(call, made)
    return made


def _read_deepspeed(call: Call, made: TrainingArguments) -> None:
    """What the file holds that `deepspeed="…json"` names, in place of its name."""
    given = made.values.get("deepspeed")
    path = path_of(given) if given is not None else None
    if path is not None and path.text.endswith(".json"):
        read = settings_in(call, path, read_json_settings)
        made.values["deepspeed"] = read if isinstance(read, Mapping) else made.values["deepspeed"]


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
    values = {name: _option(name, value, call.location) for name, value in defaults.items()}
    written = _field_locations(call, kind) if isinstance(kind, Class) else {}
    made = TrainingArguments(path, values, written, False, call.text, origin=call.location)
    call.reader.record.arguments.append(made)
    return made


def _option(name: str, value: Value, location: Location) -> Value:
    """A field of a class as the option that HfArgumentParser makes of it."""
    if not isinstance(value, Constant):
        return value
    return option_value(f"--{name}", value.value, location, is_switch=value.value is False)


def _library_class(cls: Class) -> str:
    """The library's arguments class that a script's class derives from; empty if it does not."""
    return next((path for path in cls.library_bases if is_training_arguments(path)), "")


def _own_names(cls: Class) -> list[str]:
    return [name for owner in cls.lineage() for name in owner.attributes]


def own_defaults(call: Call, cls: Class) -> dict[str, Value]:
    """The fields that a script's subclass gives a default of its own."""
    defaults = {name: objects.field_default(call, cls, name) for name in functions.fields_of(cls)}
    return {name: value for name, value in defaults.items() if not isinstance(value, Absent)}


def _field_locations(call: Call, cls: Class) -> dict[str, Location]:
    """Where a script's subclass gives its fields their defaults."""
    record, found = call.reader.record, dict[str, Location]()
    for owner, name, statement in functions.field_statements(cls):
        if statement.value is not None and owner.origin is not None:
            found[name] = record.source_of(owner.origin).location(statement)
    return found


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
    """These set several arguments, their names differ from the constructor's: nothing remains certain."""
    if isinstance(call.receiver, TrainingArguments):
        call.receiver.is_complete = False
    return call.receiver


@function("dataclasses.replace", "attr.evolve", "attrs.evolve")
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


@dataclass(eq=False, slots=True)
class ClassParser(Value):
    """An HfArgumentParser: the classes that it fills from the command line."""

    classes: list[Value] = field(default_factory=list[Value])


@function("transformers.HfArgumentParser", "trl.TrlParser")
def _class_parser(call: Call) -> Value:
    kinds = call.value("dataclass_types", 0)
    items = kinds.items if isinstance(kinds, Sequence) and kinds.is_complete else [kinds]
    return ClassParser(list(items), origin=call.location)


@method(ClassParser, "parse_args_into_dataclasses", "parse_args_and_config")
def _from_command(call: Call) -> Value:
    """One object for each class; arguments that no class has come last, if the call asks for them."""
    made = _filled(call, None)
    asked = is_true(call.value("return_remaining_strings")) or is_true(call.value("return_remaining_args"))
    return Sequence([*made, Sequence([], "list", False)] if asked else made, "tuple")


@method(ClassParser, "parse_dict")
def _from_dictionary(call: Call) -> Value:
    given = call.value("args", 0)
    return Sequence(_filled(call, given if isinstance(given, Mapping) else None), "tuple")


@method(ClassParser, "parse_json_file", "parse_yaml_file")
def _from_file(call: Call) -> Value:
    is_json = call.path.endswith("json_file")
    path = path_of(call.value("json_file" if is_json else "yaml_file", 0))
    given = settings_in(call, path, read_json_settings if is_json else read_yaml_settings) if path else UNKNOWN
    return Sequence(_filled(call, given if isinstance(given, Mapping) else None), "tuple")


def _filled(call: Call, given: Mapping | None) -> list[Value]:
    """An object of every class, from what is given, else from a command line that is not known."""
    parser = call.receiver
    if not isinstance(parser, ClassParser):
        return []
    own = [kind for kind in parser.classes if _is_own(kind)]
    claimed = {name for kind in own if isinstance(kind, Class) for name in functions.fields_of(kind)}
    made = [_made(call, kind, given) for kind in parser.classes]
    for each in made:
        if given is not None and isinstance(each, TrainingArguments) and len(own) == len(made) - 1:
            rest = {str(key): value for key, value in given.entries.items() if key not in claimed}
            each.values.update(rest)
            _note_keys(call, each, given, rest)
            each.is_complete = given.is_complete and not any(_may_change(value) for value in each.values.values())
    return made


def _note_keys(call: Call, made: TrainingArguments, given: Mapping, rest: dict[str, Value]) -> None:
    """Note that a class gets the keys of a file, each at its place there: the parser refuses those that none has."""
    locations = {name: given.written[name] for name in rest if name in given.written}
    made.locations.update(locations)
    arguments = {name: Argument(rest[name], location, named_at=location) for name, location in locations.items()}
    if arguments:
        noted = LibraryCall(made.path, call.location, arguments, 0, call.reader.guards > 0, False, made.text)
        call.reader.record.calls.append(noted)


def _is_own(kind: Value) -> bool:
    return isinstance(kind, Class) and functions.is_dataclass(kind) and not kind.library_bases


def _may_change(value: Value) -> bool:
    return isinstance(value, Constant) and value.default is not None


def _made(call: Call, kind: Value, given: Mapping | None) -> Value:
    if isinstance(kind, Class) and _is_own(kind):
        made = Instance(kind, origin=call.location)
        objects.fill_fields(Call(call.reader, None, call.location), kind, made)
        for name, value in made.attributes.items():
            given_value = given.entries.get(name) if given is not None else None
            is_certain = given is not None and given.is_complete
            made.attributes[name] = given_value or (value if is_certain else _option(name, value, call.location))
        return made
    filled = from_command_line(call, kind)
    return filled or Unknown(name=kind.name if isinstance(kind, Library) else "")
