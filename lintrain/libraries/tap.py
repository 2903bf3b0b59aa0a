"""Options of typed-argument-parser: a class that derives from `Tap`, whose annotated attributes are the options."""

from __future__ import annotations

from lintrain.interpreter import functions, objects
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.registry import instance_method
from lintrain.libraries.stdlib.argparse_options import option_value
from lintrain.pipeline.values.python import UNKNOWN, Constant, Instance, Unknown, Value


@instance_method("tap.Tap", "parse_args")
def _parsed(call: Call) -> Value:
    """`Args().parse_args()`: the same object, with each attribute as its option has it."""
    parser = call.receiver
    if not isinstance(parser, Instance):
        return UNKNOWN
    for name in functions.fields_of(parser.cls):
        default = parser.attributes.get(name) or objects.field_default(call, parser.cls, name)
        parser.attributes[name] = _as_option(name, default)
    return parser


def _as_option(name: str, default: Value) -> Value:
    if isinstance(default, Constant):
        # A switch sets its attribute to the other value.
        is_switch = isinstance(default.value, bool)
        return option_value(f"--{name}", default.value, default.origin, is_switch=is_switch)
    return Unknown(name=f"args.{name}") if default is UNKNOWN else default
