"""Settings whose names are attributes: OmegaConf, Hydra, EasyDict and their like."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from lintrain.interpreter import functions, objects
from lintrain.interpreter.core import dispatch, operations, storing
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import DEEPEST, Reader
from lintrain.interpreter.core.registry import (
    attribute_of,
    base,
    function,
    method,
    method_of,
    stored_attribute_of,
    subscript_of,
    unpacked,
)
from lintrain.knowledge.settings_files import read_yaml_settings
from lintrain.libraries.stdlib.paths import path_of, settings_in
from lintrain.model.location import Location
from lintrain.pipeline.values.certainty import Default
from lintrain.pipeline.values.loading import Named, Settings
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Class,
    Constant,
    Instance,
    LibraryObject,
    Literal,
    Mapping,
    Sequence,
    Value,
    constant,
    is_missing,
    join,
    mapping_of,
    options_of,
    text_of,
)
from lintrain.startup.lazy_pattern import lazy_pattern

NOT_PLAIN = lazy_pattern(r"\$\{|\?\?\?$")
"""Values that refer to another one, or have to be given: `${model.size}`, `???`."""

CONFIG_DICTS = tuple(
    f"ml_collections.{module}{name}"
    for module in ("", "config_dict.")
    for name in ("ConfigDict", "FrozenConfigDict", "create")
)
"""What makes settings of ml_collections."""


READ = partial(read_yaml_settings, numbers_without_point=True)


@attribute_of(Settings)
def _attribute(reader: Reader, value: Value, name: str, location: Location) -> Value | None:
    if not isinstance(value, Settings) or (name not in value.entries and method_of(value, name)):
        return None
    if name not in value.entries and value.factory is not None:
        return dispatch.subscript(reader, value, Constant(name), location)
    return value.entries.get(name) or dispatch.child(reader, value, name)


@subscript_of(Named)
def _at(reader: Reader, value: Value, key: Value, location: Location) -> Value:
    """`output[0]`, `output["loss"]`."""
    if not isinstance(value, Named):
        return UNKNOWN
    if isinstance(key, Constant) and isinstance(key.value, str):
        return dispatch.attribute(reader, value, key.value, location)
    return dispatch.subscript(reader, _in_order(reader, value), key, location)


def _in_order(reader: Reader, value: Named) -> Sequence:
    held = [join(option for option in options_of(each) if not is_missing(option)) for each in value.entries.values()]
    known = [each for each in reader.counted(held) if each is not UNKNOWN]
    # Of one that may be None, like a loss without labels, it is not known whether it counts.
    return Sequence(known, "tuple", len(known) == len(held), False, min(1, len(known)))


@unpacked(Named)
def _unpack(reader: Reader, value: Value, count: int) -> list[Value] | None:
    return operations.unpack(reader, _in_order(reader, value), count) if isinstance(value, Named) else None


@stored_attribute_of(Settings)
def _store(reader: Reader, owner: Value, name: str, value: Value, location: Location) -> None:
    if isinstance(owner, Settings):
        # Settings are often changed under `if args.debug:`, and then hold one of two values.
        owner.entries[name] = storing.weakly(reader, owner.entries.get(name), value)


def settings_of(
    reader: Reader, value: Value, change: Callable[[Value], Value] = lambda held: held, levels: int = DEEPEST
) -> Value:
    """The same values as settings, each changed in this way; Unknown if they are none, or nested too deeply."""
    inside = partial(settings_of, reader, change=change, levels=levels - 1)
    if isinstance(value, Mapping | Instance | Sequence):
        reader.spend()
    match value:
        # Settings that contain themselves (`cfg.parent = cfg`) would have no end.
        case Mapping() | Instance() | Sequence() if not levels:
            return UNKNOWN
        case Mapping():
            entries: dict[Literal, Value] = {key: inside(held) for key, held in value.entries.items()}
            return Settings(entries, value.is_complete, dict(value.written), origin=value.origin)
        case Instance() if functions.is_dataclass(value.cls):
            return inside(mapping_of(value.attributes, is_complete=True))
        case Sequence():
            return Sequence([inside(item) for item in value.items], value.kind, value.is_complete)
        case Constant(value=str(text)) if NOT_PLAIN.search(text):
            return UNKNOWN
        case _:
            return change(value)


@base("easydict.EasyDict", "munch.Munch", "box.Box", "ml_collections.ConfigDict")
def _entries(call: Call) -> Value:
    """The entries of an object of the script's own class of settings."""
    made = _create(call)
    return made if isinstance(made, Settings) else Settings({}, False, origin=call.location)


@method(Settings, "copy_and_resolve_references")
def _copy(call: Call) -> Value:
    return settings_of(call.reader, call.receiver)


@function("omegaconf.OmegaConf.load")
def _load(call: Call) -> Value:
    path = path_of(call.value("file_", 0))
    return settings_of(call.reader, settings_in(call, path, READ)) if path else UNKNOWN


@function("omegaconf.OmegaConf.create", "omegaconf.OmegaConf.structured", "omegaconf.DictConfig")
@function("easydict.EasyDict", "munch.Munch", "munch.munchify", "box.Box", *CONFIG_DICTS)
def _create(call: Call) -> Value:
    value: Value = call.positional[0].value if call.positional else mapping_of({}, is_complete=not call.is_open)
    if isinstance(value, Class):
        value = objects.instantiate(Call(call.reader, None, call.location, "", value), value)
    made = settings_of(call.reader, value)
    if isinstance(made, Settings):
        made.entries.update({name: each.value for name, each in call.keywords.items() if name != "**"})
    return made


@function("omegaconf.OmegaConf.to_container", "omegaconf.OmegaConf.to_object")
def _plain(call: Call) -> Value:
    return call.value("cfg", 0)


@function("omegaconf.OmegaConf.merge", "omegaconf.OmegaConf.unsafe_merge")
def _merge(call: Call) -> Value:
    """The later one wins; where one is not known, as with the command line's, all values are defaults."""
    made = Settings({}, True, origin=call.location)
    for argument in call.positional:
        part = settings_of(call.reader, argument.value)
        if isinstance(part, Settings):
            merge_into(made, part)
        elif isinstance(argument.value, LibraryObject) and argument.value.path.endswith(("from_cli", "from_dotlist")):
            # Only what was merged so far is turned into defaults: a later argument overrides the command
            # line for certain.
            as_options(call.reader, made, "=")
        else:
            return UNKNOWN
    return made


def as_options(reader: Reader, made: Mapping, ending: str, above: str = "") -> None:
    """Turn settings into options that the command line changes by their names: `solver.lr=0.1`, `SOLVER.LR 0.1`."""
    made.is_complete = False
    for key, value in reader.counted(made.entries).items():
        name = f"{above}{key!s}"
        if isinstance(value, Mapping):
            as_options(reader, value, ending, f"{name}.")
        elif isinstance(value, Constant) and value.default is None:
            default = Default(f"{name}{ending}", str(value.value), value.origin)
            made.entries[key] = constant(value.value, default, value.origin)


def place_of(made: Mapping, key: str) -> tuple[Mapping, str] | None:
    """The settings that a dotted key is in, and its last part; None if no such settings are known."""
    *above, name = key.split(".")
    for part in above:
        inner = made.entries.get(part)
        if not isinstance(inner, Mapping):
            return None
        made = inner
    return made, name


@function("omegaconf.OmegaConf.update")
def _update(call: Call) -> Value:
    """`OmegaConf.update(cfg, "model.size", 8)`."""
    made, key = call.value("cfg", 0), text_of(call.value("key", 1))
    found = place_of(made, key) if isinstance(made, Mapping) and key is not None else None
    if found is not None:
        storing.store_item(call.reader, found[0], Constant(found[1]), call.value("value", 2), call.location)
    return Constant(None)


@function("omegaconf.OmegaConf.select")
def _select(call: Call) -> Value:
    made, key = call.value("cfg", 0), text_of(call.value("key", 1))
    found = place_of(made, key) if isinstance(made, Mapping) and key is not None else None
    return found[0].entries.get(found[1], UNKNOWN) if found is not None else UNKNOWN


def merge_into(made: Settings, part: Settings) -> None:
    """Put settings over others, section by section."""
    made.is_complete = made.is_complete and part.is_complete
    for key, value in part.entries.items():
        before = made.entries.get(key)
        if isinstance(before, Settings) and isinstance(value, Settings):
            merge_into(before, value)
        else:
            made.entries[key] = value
