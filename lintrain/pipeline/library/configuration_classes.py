"""Classes that are filled from the command line: HfArgumentParser, TrlParser. What they give is a default."""

from __future__ import annotations

from dataclasses import dataclass, field

from lintrain.pipeline import objects
from lintrain.pipeline.call import Call
from lintrain.pipeline.functions import attribute_default
from lintrain.pipeline.library import transformers_arguments
from lintrain.pipeline.registry import function, method
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Class,
    Instance,
    Library,
    Sequence,
    Unknown,
    Value,
)


@dataclass(eq=False, slots=True)
class ClassParser(Value):
    """An HfArgumentParser: the classes that it fills from the command line."""

    classes: list[Value] = field(default_factory=list[Value])


@function("transformers.HfArgumentParser", "trl.TrlParser")
def _class_parser(call: Call) -> Value:
    kinds = call.value("dataclass_types", 0)
    items = kinds.items if isinstance(kinds, Sequence) and kinds.is_complete else [kinds]
    return ClassParser(list(items), origin=call.place)


@method(ClassParser, "parse_args_into_dataclasses", "parse_json_file", "parse_yaml_file", "parse_dict")
@method(ClassParser, "parse_args_and_config")
def _fill_classes(call: Call) -> Value:
    parser = call.receiver
    if not isinstance(parser, ClassParser):
        return UNKNOWN
    made = [_from_command_line(call, kind) for kind in parser.classes]
    return Sequence(made, "tuple")


def _from_command_line(call: Call, kind: Value) -> Value:
    """An object whose every field may have been given by the user: the defaults are no certainties."""
    if isinstance(kind, Class) and objects.is_dataclass(kind) and not kind.library_bases:
        made = Instance(kind, origin=call.place)
        filler = Call(call.reader, None, call.place, "", "")
        objects.fill_fields(filler, kind, made)
        made.attributes = {name: attribute_default(value) for name, value in made.attributes.items()}
        return made
    filled = transformers_arguments.from_command_line(call, kind)
    return filled or Unknown(name=kind.name if isinstance(kind, Library) else "")
