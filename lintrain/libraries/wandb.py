"""The settings that a run of Weights & Biases keeps: `wandb.init(config=…)`, then `wandb.config.rate`."""

from __future__ import annotations

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import attribute_of, function, held_by, method, named
from lintrain.interpreter.functions import attribute_default
from lintrain.libraries.omegaconf import merge_into, settings_of
from lintrain.model.location import Location
from lintrain.pipeline.values.loading import Settings
from lintrain.pipeline.values.python import Constant, Mapping, Value
from lintrain.source.source import whole_text
from lintrain.startup.lazy_dataclass import dataclass

CONFIG = "wandb.config"

SEARCHES = ("wandb.agent(", "wandb.sweep(")
"""What sets other values than those in the script, one after the other."""


@dataclass(eq=False, slots=True)
class Run(Value):
    """What `wandb.init` gives."""


@named(CONFIG)
def _config(reader: Reader) -> Value:
    held = reader.saved.get(CONFIG)
    if held is None:
        held = reader.saved[CONFIG] = Settings({}, False)
    return held


@function("wandb.init")
def _init(call: Call) -> Value:
    config = _config(call.reader)
    _add(call, config, call.value("config"))
    return Run(origin=call.location)


@method(Settings, "setdefaults")
def _set_defaults(call: Call) -> Value:
    _add(call, call.receiver, call.value("d", 0))
    return Constant(None)


def _add(call: Call, config: Value, given: Value) -> None:
    held, _ = held_by(given)
    part = settings_of(call.reader, Mapping(held, False))
    # An agent starts the function once for each set of values, which replace those of `init`.
    if any(map(call.reader.source.cached(whole_text).__contains__, SEARCHES)):
        part = settings_of(call.reader, part, attribute_default)
    if isinstance(config, Settings) and isinstance(part, Settings):
        merge_into(config, part)


@attribute_of(Run)
def _attribute(reader: Reader, value: Value, name: str, location: Location) -> Value | None:
    return _config(reader) if name == "config" else None
