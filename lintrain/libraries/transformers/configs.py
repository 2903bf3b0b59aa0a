"""Model configurations of transformers: where the size of a head may come from, besides the model's own call."""

from __future__ import annotations

from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import Transfer, attribute_of, family, stored_attribute_of
from lintrain.model.location import Location
from lintrain.pipeline.events import Act
from lintrain.pipeline.values.model import Config
from lintrain.pipeline.values.python import ABSENT, UNKNOWN, Absent, Constant, Mapping, Value, join
from lintrain.startup.lazy_pattern import lazy_pattern

CONFIG = lazy_pattern(r"transformers\.(Auto|[A-Z]\w*)Config(?P<method>\.from_pretrained|\.from_dict|\.for_model)?$")
NOT_OF_MODELS = frozenset({"GenerationConfig", "BitsAndBytesConfig", "QuantoConfig", "GPTQConfig", "AwqConfig"})

HEAD_SIZE = frozenset({"num_labels", "id2label", "label2id"})
"""What sets the size of a classification head."""


@family("transformers")
def _config(path: str) -> Transfer | None:
    if not CONFIG.match(path) or path.split(".")[1] in NOT_OF_MODELS:
        return None
    return make_config


def make_config(call: Call) -> Value:
    """A configuration as its call makes it; `from_dict` may hold anything."""
    checkpoint = call.value("pretrained_model_name_or_path", 0) if call.path.endswith("from_pretrained") else ABSENT
    values = {name: argument.value for name, argument in call.keywords.items()}
    is_complete = not call.is_open and not call.path.endswith(("from_dict", "for_model"))
    sized = head_size(values) if is_complete or HEAD_SIZE & set(values) else UNKNOWN
    return Config(call.path, checkpoint, values, {}, sized, is_complete, origin=call.location)


def head_size(values: dict[str, Value]) -> Value:
    """The number of labels that arguments ask for: `num_labels`, or the length of `id2label`; Absent where neither.

    `label2id` alone leaves the size to the checkpoint, whatever that holds.
    """
    if "num_labels" in values:
        return values["num_labels"]
    if "id2label" in values:
        names = values["id2label"]
        return Constant(len(names.entries)) if isinstance(names, Mapping) and names.is_complete else UNKNOWN
    return UNKNOWN if "label2id" in values else ABSENT


@attribute_of(Config)
def _read(reader: Reader, value: Value, name: str, location: Location) -> Value | None:
    if not isinstance(value, Config):
        return None
    if name in value.attributes:
        return value.attributes[name]
    if name == "num_labels" and not isinstance(value.num_labels, Absent):
        return value.num_labels
    if name in value.arguments:
        return value.arguments[name]
    return dispatch.child(reader, value, name)


@stored_attribute_of(Config)
def _store(reader: Reader, owner: Value, name: str, value: Value, location: Location) -> None:
    if not isinstance(owner, Config):
        return
    owner.attributes[name] = join([owner.attributes.get(name, UNKNOWN), value]) if reader.conditions else value
    reader.act(Act.REPLACE, location, owner, name=Constant(name), value=value)
    if name in HEAD_SIZE:
        owner.num_labels = UNKNOWN if reader.conditions else head_size({name: value})
