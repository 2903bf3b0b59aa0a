"""Flags of absl, and of TensorFlow 1, which took them from there: defaults that the command line may change."""

from __future__ import annotations

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import function, named
from lintrain.libraries.stdlib.argparse_options import Namespace, option_value
from lintrain.pipeline.values.python import UNKNOWN, Constant, Unknown, Value, text_of

MODULES = ("absl.flags", "tensorflow.app.flags", "tensorflow.compat.v1.flags", "tensorflow.compat.v1.app.flags")
KINDS = ("bool", "boolean", "enum", "float", "integer", "string")
FLAGS = "absl.flags.FLAGS"


@named(*(f"{module}.FLAGS" for module in MODULES))
def _flags(reader: Reader) -> Value:
    held = reader.saved.get(FLAGS)
    if held is None:
        held = reader.saved[FLAGS] = Namespace()
    return held


@function(*(f"{module}.DEFINE_{kind}" for module in MODULES for kind in KINDS))
def _define(call: Call) -> Value:
    """`flags.DEFINE_float("lr", 0.1, "rate")`."""
    flags, name, default = _flags(call.reader), text_of(call.value("name", 0)), call.value("default", 1)
    if isinstance(flags, Namespace) and name:
        flags.options[name] = Unknown(name=name)
    if isinstance(flags, Namespace) and name and isinstance(default, Constant):
        is_switch = call.path.endswith(("_bool", "_boolean"))
        flags.options[name] = option_value(f"--{name}", default.value, call.location, is_switch=is_switch)
    return UNKNOWN
