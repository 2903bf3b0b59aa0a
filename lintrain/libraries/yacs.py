"""Settings as trees of nodes, changed by a file and by the command line: yacs, and what builds on it (fvcore)."""

from __future__ import annotations

from lintrain.interpreter.core import operations, storing
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.registry import base, function, method
from lintrain.interpreter.functions import attribute_default
from lintrain.libraries.omegaconf import READ, as_options, merge_into, place_of, settings_of
from lintrain.libraries.stdlib.paths import path_of, settings_in
from lintrain.pipeline.values.loading import OpenFile, Settings
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Absent,
    Constant,
    Library,
    Mapping,
    Value,
    is_missing,
    mapping_of,
    text_of,
)

NODES = ("yacs.config.CfgNode", "fvcore.common.config.CfgNode", "detectron2.config.CfgNode")

MOST_PAIRS = 64
"""Keys and values of a list that are merged one by one."""


@function(*NODES, "addict.Dict")
@base(*NODES, "addict.Dict")
def _node(call: Call) -> Value:
    given = call.value("init_dict", 0)
    held: Value = mapping_of({}, is_complete=not call.is_open) if isinstance(given, Absent) else given
    made = settings_of(call.reader, held)
    if not isinstance(made, Settings):
        return Settings({}, False, origin=call.location)
    if call.path == "addict.Dict":
        # `settings.model.size = 8`: a key that is missing is a dictionary of its own.
        made.factory = Library("addict.Dict")
    made.origin = call.location
    return made


@function(*(f"{path}.load_cfg" for path in NODES))
def _load(call: Call) -> Value:
    opened = call.value("cfg_file_obj_or_str", 0)
    return settings_of(call.reader, settings_in(call, opened.path, READ)) if isinstance(opened, OpenFile) else UNKNOWN


@method(Settings, "clone")
def _clone(call: Call) -> Value:
    return settings_of(call.reader, call.receiver)


@method(Settings, "freeze", "defrost", "set_new_allowed")
def _mark(call: Call) -> Value:
    """What allows and forbids changes, and makes none."""
    return Constant(None)


@method(Settings, "merge_from_file")
def _merge_file(call: Call) -> Value:
    path = path_of(call.value("cfg_filename", 0))
    part = settings_of(call.reader, settings_in(call, path, READ)) if path else UNKNOWN
    _merge(call, part)
    return Constant(None)


@method(Settings, "merge_from_other_cfg")
def _merge_other(call: Call) -> Value:
    _merge(call, settings_of(call.reader, call.value("cfg_other", 0)))
    return Constant(None)


def _merge(call: Call, part: Value) -> None:
    made = call.receiver
    if not isinstance(made, Settings):
        return
    # `if args.cfg: cfg.merge_from_file(args.cfg)` may leave the settings as they are: then neither the values of the
    # code nor those of the file are certain.
    if isinstance(part, Settings) and not call.reader.conditions:
        merge_into(made, part)
        return
    # What a file that is not known sets may be anything.
    defaults = settings_of(call.reader, made, attribute_default)
    if isinstance(defaults, Settings):
        made.entries.update(defaults.entries)


@method(Settings, "merge_from_list")
def _merge_list(call: Call) -> Value:
    """`cfg.merge_from_list(["SOLVER.LR", 0.1])`; one from the command line may set each of them."""
    made, given = call.receiver, call.value("cfg_list", 0)
    if not isinstance(made, Mapping) or is_missing(given):
        return Constant(None)
    items = operations.known_items(given, MOST_PAIRS)
    if items is None:
        # As in `merge_from_list(args.opts)`: whoever starts the script names the keys that change, as options.
        as_options(call.reader, made, "")
        return Constant(None)
    for key, value in zip(items[::2], items[1::2], strict=False):
        found = place_of(made, name) if (name := text_of(key)) is not None else None
        if found is not None:
            storing.store_item(call.reader, found[0], Constant(found[1]), value, call.location)
    return Constant(None)
