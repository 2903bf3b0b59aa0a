"""Argparse and Fire: what their options give is a default that the user may overrule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import cast

from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.call import Call, escape
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import (
    attribute_of,
    base,
    decorating,
    entries_of,
    function,
    method,
    stored_attribute_of,
)
from lintrain.interpreter.functions import attribute_default
from lintrain.model.location import Location
from lintrain.pipeline.record import NEVER_CHANGED, TRUE_FOR_ANY_TEXT, Misuse
from lintrain.pipeline.values.certainty import OF_PARAMETER, UNCERTAIN, Default
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Absent,
    Class,
    Constant,
    Function,
    Instance,
    Library,
    LibraryObject,
    Literal,
    Mapping,
    Sequence,
    Unknown,
    Value,
    constant,
    is_missing,
    is_true,
    literal,
    text_of,
)
from lintrain.startup.lazy_dataclass import dataclass

CONVERSIONS: dict[str, Callable[[str], str | int | float]] = {
    "builtins.int": int,
    "builtins.float": float,
    "builtins.bool": bool,
}
"""What argparse makes of a default that is text, by the option's `type`."""


@dataclass(eq=False, slots=True)
class Parser(Value):
    """An argparse parser: the default of each of its options by the name that it is stored under.

    `is_open` if something else may have set defaults too. `above` is the parser that it is a command of.
    """

    options: dict[str, Value] = field(default_factory=dict[str, Value])
    is_open: bool = False
    above: Parser | None = None


@dataclass(eq=False, slots=True)
class Commands(Value):
    """What `add_subparsers` gives: each command has a parser of its own."""

    above: Parser | None = None


@dataclass(eq=False, slots=True)
class Namespace(Value):
    """Parsed options."""

    options: dict[str, Value] = field(default_factory=dict[str, Value])


PARSERS = (
    *("argparse.ArgumentParser",),
    *("configargparse.ArgumentParser", "configargparse.ArgParser", "configargparse.Parser"),
)


@function(*PARSERS)
@base(*PARSERS)
def _parser(call: Call) -> Value:
    # Files of settings that configargparse reads win over the defaults in the code.
    made = Parser(origin=call.location, is_open="default_config_files" in call.keywords)
    parents = call.value("parents")
    if isinstance(parents, Sequence):
        for parent in parents.items:
            held = parent.base if isinstance(parent, Instance) else parent
            if isinstance(held, Parser):
                made.options.update(held.options)
    return made


@method(Parser, "add_subparsers")
def _commands(call: Call) -> Value:
    return Commands(call.receiver if isinstance(call.receiver, Parser) else None, origin=call.location)


@method(Commands, "add_parser")
def _command(call: Call) -> Value:
    """A parser whose options are those of the whole where its command is given."""
    made = _parser(call)
    if isinstance(made, Parser) and isinstance(call.receiver, Commands):
        made.above = call.receiver.above
        for name, value in made.options.items():
            _add_option(made.above, name, value)
    return made


def _add_option(parser: Parser | None, name: str, value: Value) -> None:
    """What the namespace has under a name: of two commands that declare it, it is not known which is given."""
    while parser is not None:
        # The namespace is flat: `train --lr` and `tune --lr` are both read as `args.lr`.
        is_shared = name in parser.options
        parser.options[name] = Unknown(name=f"args.{name}") if is_shared else value
        parser = parser.above


@method(Parser, "get_default")
def _default_of(call: Call) -> Value:
    parser, name = call.receiver, text_of(call.value("dest", 0))
    return parser.options.get(name or "", UNKNOWN) if isinstance(parser, Parser) else UNKNOWN


@method(Parser, "add_argument_group", "add_mutually_exclusive_group")
def _group(call: Call) -> Value:
    return call.receiver


@method(Parser, "add_argument", "add", "add_arg")
def _add_argument(call: Call) -> Value:
    parser = call.receiver
    name = _option_name(call)
    _note_stuck(call, name or "")
    if isinstance(parser, Parser) and name:
        is_only_option = name not in parser.options
        parser.options[name] = _fixed(call) if is_only_option and _is_without_effect(call) else _option_default(call)
        _add_option(parser.above, name, parser.options[name])
    return UNKNOWN


def _note_stuck(call: Call, name: str) -> None:
    """Record an option that no command line changes as its user expects."""
    kind = call.value("type")
    if isinstance(kind, Library) and kind.path == "builtins.bool" and isinstance(call.value("action"), Absent):
        call.reader.record.misuses.append(Misuse(call.location, call.value("default"), TRUE_FOR_ANY_TEXT, _flag(call)))
    elif _is_without_effect(call):
        call.reader.record.misuses.append(Misuse(call.location, Constant(name), NEVER_CHANGED, _flag(call)))


def _is_without_effect(call: Call) -> bool:
    """Whether an option stores what it has by default: `action="store_true", default=True`."""
    default = literal(call.value("default"))
    return isinstance(default, bool) and text_of(call.value("action")) == f"store_{default}".lower()


def _fixed(call: Call) -> Constant:
    """The value of an option that no command line changes, unless another option stores it too, or code sets it."""
    return Constant(literal(call.value("default")), origin=call.location)


def _option_name(call: Call) -> str | None:
    stored = text_of(call.value("dest"))
    if stored:
        return stored
    flags = [text_of(argument.value) or "" for argument in call.positional]
    # argparse takes the first long flag, or else the first short one: `-b, --batch-size` is stored as
    # `batch_size`.
    long = [flag for flag in flags if flag.startswith("--")] or flags
    return long[0].lstrip("-").replace("-", "_") if long and long[0] else None


def _option_default(call: Call) -> Value:
    default = call.value("default")
    # A required option has no default that anyone sees, even if the code names one.
    if _is_always_given(call):
        return Unknown(name=_option_name(call) or "")
    if isinstance(default, Absent):
        action = text_of(call.value("action"))
        if action not in {"store_true", "store_false"}:
            # Without `action=` and `default=` the value is None, and the user may give another one.
            return Constant(None, UNCERTAIN, origin=call.location)
        switch = Default(_flag(call), location=call.location, is_switch=True)
        return constant(action == "store_false", switch, call.location)
    converted = _typed(call, default) if isinstance(default, Constant) else default
    if isinstance(converted, Constant):
        return option_value(_flag(call), converted.value, call.location, is_switch=_is_switch(call))
    return _each_by_default(call, converted)


def _each_by_default(call: Call, value: Value) -> Value:
    """A list as an option has it by default: each item may be another one."""
    if not isinstance(value, Sequence):
        return value
    items = call.reader.counted(value.items)
    text = " ".join(str(item.value) for item in items if isinstance(item, Constant))
    default = Default(_flag(call), text, call.location)
    held = [constant(item.value, default, item.origin) if isinstance(item, Constant) else item for item in items]
    return Sequence(held, value.kind, value.is_complete, value.is_closed, origin=value.origin)


def _is_switch(call: Call) -> bool:
    """Whether the option takes no value; one that also has a form `--no-…` is a switch if it is off by default."""
    action = call.value("action")
    has_both = isinstance(action, Library) and action.path == "argparse.BooleanOptionalAction"
    return text_of(action) in {"store_true", "store_false"} or (has_both and literal(call.value("default")) is False)


def _flag(call: Call) -> str:
    """The option as its user writes it, the long form if there is one."""
    flags = [text_of(argument.value) or "" for argument in call.positional]
    return next((flag for flag in flags if flag.startswith("--")), flags[0] if flags else "")


def option_value(option: str, value: Literal, location: Location | None, *, is_switch: bool = False) -> Constant:
    """What an option is by default. None and an empty text are placeholders: the user is expected to pass another."""
    if value is None or value == "":
        return Constant(value, UNCERTAIN, origin=location)
    return constant(value, Default(option, str(value), location, is_switch=is_switch), location)


def _is_always_given(call: Call) -> bool:
    """Whether the user has to give the option: then its default is never used."""
    if is_true(call.value("required")):
        return True
    flags = [text_of(argument.value) or "-" for argument in call.positional]
    return bool(flags) and not flags[0].startswith("-") and text_of(call.value("nargs")) not in {"?", "*"}


def _typed(call: Call, default: Constant) -> Value:
    """argparse converts a default that is text with the option's `type`."""
    kind = call.value("type")
    if not isinstance(default.value, str) or is_missing(kind):
        return default
    if isinstance(kind, Function | Class):
        return dispatch.call(call.reader, kind, [default], location=call.location)
    if isinstance(kind, Library):
        try:
            # `default="1e-4", type=float` gives a number: argparse converts defaults that are text.
            return Constant(CONVERSIONS.get(kind.path, str)(default.value), origin=default.origin)
        except ValueError:
            return default
    return default


@method(Parser, "set_defaults")
def _set_defaults(call: Call) -> Value:
    parser = call.receiver
    if isinstance(parser, Parser):
        given = {name: each.value for name, each in call.keywords.items() if name != "**"}
        parser.options.update({name: _set_default(name, value, call) for name, value in given.items()})
        parser.is_open = parser.is_open or call.is_open
    return UNKNOWN


def _set_default(name: str, value: Value, call: Call) -> Value:
    return option_value(f"--{name}", value.value, call.location) if isinstance(value, Constant) else value


@method(Parser, "parse_args", "parse_intermixed_args")
def _parse(call: Call) -> Value:
    return _namespace(call)


@method(Parser, "parse_known_args", "parse_known_intermixed_args")
def _parse_known(call: Call) -> Value:
    return Sequence([_namespace(call), Sequence([], "list", False)], "tuple")


def _namespace(call: Call) -> Value:
    parser = call.receiver
    if not isinstance(parser, Parser):
        return UNKNOWN
    if parser.is_open or not is_missing(call.value("namespace", 1)):
        return Namespace(origin=call.location)
    given = call.value("args", 0)
    if isinstance(given, Sequence) and given.is_complete and not given.items:
        # `parse_args([])`, as in notebooks: no option can be passed.
        return Namespace({name: _as_given(value) for name, value in parser.options.items()}, origin=call.location)
    return Namespace(dict(parser.options), origin=call.location)


def _as_given(value: Value) -> Value:
    return Constant(value.value, origin=value.origin) if isinstance(value, Constant) else value


@attribute_of(Namespace)
def _option(reader: Reader, value: Value, name: str, location: Location) -> Value | None:
    if not isinstance(value, Namespace):
        return None
    if name == "__dict__":
        return _held(value)
    if name not in value.options:
        # Kept under its name, so that `args.seed` is the same unknown thing wherever the script reads it.
        value.options[name] = Unknown(name=f"args.{name}")
    return value.options[name]


@stored_attribute_of(Namespace)
def _store_option(reader: Reader, owner: Value, name: str, value: Value, location: Location) -> None:
    if isinstance(owner, Namespace):
        # Under a condition the stored value may be the one or the option's own: it counts as a default.
        owner.options[name] = value if not reader.conditions else attribute_default(value)


@entries_of(Namespace)
def _entries(value: Value) -> tuple[dict[Literal, Value], bool]:
    return (dict(_held(value).entries), False) if isinstance(value, Namespace) else ({}, False)


@function("builtins.vars")
def _vars(call: Call) -> Value:
    value = call.value("object", 0)
    if isinstance(value, Instance):
        return Mapping(cast("dict[Literal, Value]", value.attributes), False)
    return _held(value) if isinstance(value, Namespace) else UNKNOWN


def _held(value: Namespace) -> Mapping:
    """The options by name; what is stored there is stored in the namespace."""
    return Mapping(cast("dict[Literal, Value]", value.options), False)


@function("argparse.Namespace", "types.SimpleNamespace")
def _made_namespace(call: Call) -> Value:
    given = {name: argument.value for name, argument in call.keywords.items() if name != "**"}
    return Namespace(given, origin=call.location)


@function("typer.Option", "typer.Argument")
def _typer_option(call: Call) -> Value:
    """The default of a parameter; `...` means that it must be given."""
    default = call.value("default", 0)
    if not isinstance(default, Constant):
        return UNKNOWN if isinstance(default, Absent) else default
    # The option is called like the parameter, which takes the default later.
    return option_value(text_of(call.value("param_decls", 1)) or OF_PARAMETER, default.value, call.location)


@decorating("click.option")
def _click_option(reader: Reader, made: Function, mark: LibraryObject) -> None:
    """`@click.option("--lr", default=1e-3)`: the default of a parameter of the command."""
    names = [text for key, value in mark.arguments.items() if key.isdecimal() and (text := text_of(value))]
    own = [name for name in names if not name.startswith("-")]
    long = own or [name.lstrip("-").partition("/")[0] for name in names if name.startswith("--")]
    default = mark.arguments.get("default")
    if long and isinstance(default, Constant) and not is_true(mark.arguments.get("required", UNKNOWN)):
        # Decorators are applied from the bottom up. The one next to the function wins, as a parameter has
        # one option.
        flag = next((name for name in names if name.startswith("-")), long[0])
        made.defaults.setdefault(long[0].replace("-", "_"), option_value(flag, default.value, mark.origin))


@function("fire.Fire")
def _fire(call: Call) -> Value:
    """`fire.Fire(main)`: the parameters of the function are options, their defaults those of the options."""
    component = call.value("component", 0)
    if not isinstance(component, Function):
        escape(call)
        return UNKNOWN
    keywords = {name: _as_option(name, default) for name, default in component.defaults.items()}
    return dispatch.call(call.reader, component, [], keywords, location=call.location)


def _as_option(name: str, default: Value) -> Value:
    if not isinstance(default, Constant) or default.default is not None:
        return default
    plain = default.value
    # `base_model=""` stands for an option that has to be given.
    if plain in {None, ""}:
        return constant(plain, UNCERTAIN, default.origin)
    option = Default(f"--{name}", str(plain), default.origin, is_switch=plain is False)
    return constant(plain, option, default.origin)
