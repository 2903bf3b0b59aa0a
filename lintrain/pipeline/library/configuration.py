"""Configurations: argparse, HfArgumentParser and their like. What they give is a default that the user may overrule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lintrain.core.place import Place
from lintrain.pipeline import objects
from lintrain.pipeline.call import Call
from lintrain.pipeline.functions import attribute_default
from lintrain.pipeline.library import transformers_arguments
from lintrain.pipeline.registry import attribute_of, function, method, stored_attribute_of
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Absent,
    Class,
    Constant,
    Instance,
    Library,
    Literal,
    Sequence,
    Unknown,
    Value,
    is_true,
    mapping_of,
    text_of,
)

if TYPE_CHECKING:
    from lintrain.pipeline.reader import Reader


CONVERSIONS: dict[str, Callable[[str], str | int | float]] = {"builtins.int": int, "builtins.float": float}
"""What argparse makes of a default that is text, by the option's `type`."""


@dataclass(eq=False, slots=True)
class Parser(Value):
    """An argparse parser: the default of each of its options by the name that it is stored under."""

    options: dict[str, Value] = field(default_factory=dict[str, Value])


@dataclass(eq=False, slots=True)
class Namespace(Value):
    """Parsed options."""

    options: dict[str, Value] = field(default_factory=dict[str, Value])


@dataclass(eq=False, slots=True)
class ClassParser(Value):
    """An HfArgumentParser: the classes that it fills from the command line."""

    classes: list[Value] = field(default_factory=list[Value])


@function("argparse.ArgumentParser")
def _parser(call: Call) -> Value:
    return Parser(origin=call.place)


@method(Parser, "add_argument_group", "add_mutually_exclusive_group")
def _group(call: Call) -> Value:
    return call.receiver


@method(Parser, "add_argument")
def _add_argument(call: Call) -> Value:
    parser = call.receiver
    name = _option_name(call)
    if isinstance(parser, Parser) and name:
        parser.options[name] = _option_default(call)
    return UNKNOWN


def _option_name(call: Call) -> str | None:
    stored = text_of(call.value("dest"))
    if stored:
        return stored
    flags = [text_of(argument.value) or "" for argument in call.positional]
    long = [flag for flag in flags if flag.startswith("--")] or flags
    return long[0].lstrip("-").replace("-", "_") if long and long[0] else None


def _option_default(call: Call) -> Value:
    default = call.value("default")
    action = text_of(call.value("action"))
    if isinstance(default, Absent):
        if action in {"store_true", "store_false"}:
            return Constant(action == "store_false", True, origin=call.place)
        is_needed = is_true(call.value("required"))
        return Unknown(name=_option_name(call) or "") if is_needed else Constant(None, True, origin=call.place)
    if isinstance(default, Constant):
        return Constant(_typed(call, default), True, origin=call.place)
    return default


def _typed(call: Call, default: Constant) -> Literal:
    """argparse converts a default that is text with the option's `type`."""
    kind = call.value("type")
    if isinstance(default.value, str) and isinstance(kind, Library):
        try:
            return CONVERSIONS.get(kind.path, str)(default.value)
        except ValueError:
            return default.value
    return default.value


@method(Parser, "set_defaults")
def _set_defaults(call: Call) -> Value:
    if isinstance(call.receiver, Parser):
        call.receiver.options.update({name: attribute_default(each.value) for name, each in call.keywords.items()})
    return UNKNOWN


@method(Parser, "parse_args")
def _parse(call: Call) -> Value:
    return _namespace(call)


@method(Parser, "parse_known_args")
def _parse_known(call: Call) -> Value:
    return Sequence([_namespace(call), Sequence([], "list", False)], "tuple")


def _namespace(call: Call) -> Value:
    parser = call.receiver
    return Namespace(dict(parser.options), origin=call.place) if isinstance(parser, Parser) else UNKNOWN


@attribute_of(Namespace)
def _option(reader: Reader, value: Value, name: str, place: Place) -> Value | None:
    if not isinstance(value, Namespace):
        return None
    if name not in value.options:
        value.options[name] = Unknown(name=f"args.{name}")
    return value.options[name]


@stored_attribute_of(Namespace)
def _store_option(reader: Reader, owner: Value, name: str, value: Value, place: Place) -> None:
    if isinstance(owner, Namespace):
        owner.options[name] = value if not reader.conditions else attribute_default(value)


@function("builtins.vars")
def _vars(call: Call) -> Value:
    value = call.value("object", 0)
    if isinstance(value, Instance):
        return mapping_of(value.attributes, is_complete=False)
    return mapping_of(value.options, is_complete=False) if isinstance(value, Namespace) else UNKNOWN


@function("argparse.Namespace", "types.SimpleNamespace")
def _made_namespace(call: Call) -> Value:
    return Namespace({name: argument.value for name, argument in call.keywords.items()}, origin=call.place)


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
