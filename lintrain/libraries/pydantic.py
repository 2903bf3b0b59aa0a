"""Settings of pydantic: objects made from a dictionary, and copies with other values."""

from __future__ import annotations

from lintrain.interpreter import objects
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.registry import class_method, held_by, instance_method
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.python import UNKNOWN, Class, Instance, Value

MODELS = ("pydantic.BaseModel", "pydantic.BaseSettings", "pydantic_settings.BaseSettings")


def _made(call: Call) -> Value:
    """`Settings.model_validate({"rate": 0.1})`."""
    if not isinstance(call.receiver, Class):
        return UNKNOWN
    held, is_complete = held_by(call.value("obj", 0))
    given = {str(key): Argument(value, call.location) for key, value in held.items()}
    return objects.make_instance(
        Call(call.reader, None, call.location, keywords=given, is_open=not is_complete), call.receiver
    )


def _copied(call: Call) -> Value:
    """`settings.model_copy(update={"rate": 0.1})`."""
    if not isinstance(call.receiver, Instance):
        return UNKNOWN
    held, is_complete = held_by(call.value("update"))
    if "update" in call.keywords and not is_complete:
        return UNKNOWN
    given = {str(key): value for key, value in held.items()}
    return Instance(call.receiver.cls, {**call.receiver.attributes, **given}, origin=call.location)


for path in MODELS:
    class_method(path, "model_validate", "parse_obj")(_made)
    instance_method(path, "model_copy", "copy")(_copied)
