"""Classes that are filled from the command line: HfArgumentParser, TrlParser. What they give is a default."""

from __future__ import annotations

from dataclasses import field

from lintrain.interpreter import classes, objects
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.registry import function, method
from lintrain.interpreter.functions import attribute_default
from lintrain.knowledge.setting_files import read_json_settings, read_yaml_settings
from lintrain.libraries.stdlib.paths import path_of
from lintrain.libraries.stdlib.setting_files import settings_in
from lintrain.libraries.transformers import arguments as transformers_arguments
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Class,
    Constant,
    Instance,
    Library,
    Mapping,
    Sequence,
    Unknown,
    Value,
    is_true,
)
from lintrain.pipeline.values.training import TrainingArguments
from lintrain.startup.lazy_dataclass import dataclass


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
    claimed = {name for kind in own if isinstance(kind, Class) for name in classes.fields_of(kind)}
    made = [_made(call, kind, given) for kind in parser.classes]
    for each in made:
        if given is not None and isinstance(each, TrainingArguments) and len(own) == len(made) - 1:
            rest = {str(key): value for key, value in given.entries.items() if key not in claimed}
            each.values.update(rest)
            each.is_complete = given.is_complete and not any(_may_change(value) for value in each.values.values())
    return made


def _is_own(kind: Value) -> bool:
    return isinstance(kind, Class) and classes.is_dataclass(kind) and not kind.library_bases


def _may_change(value: Value) -> bool:
    return isinstance(value, Constant) and value.is_default


def _made(call: Call, kind: Value, given: Mapping | None) -> Value:
    if isinstance(kind, Class) and _is_own(kind):
        made = Instance(kind, origin=call.location)
        objects.fill_fields(Call(call.reader, None, call.location), kind, made)
        for name, value in made.attributes.items():
            told = given.entries.get(name) if given is not None else None
            is_certain = given is not None and given.is_complete
            made.attributes[name] = told or (value if is_certain else attribute_default(value))
        return made
    filled = transformers_arguments.from_command_line(call, kind)
    return filled or Unknown(name=kind.name if isinstance(kind, Library) else "")
