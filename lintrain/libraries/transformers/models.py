"""Making models of transformers and their configurations: from a checkpoint, a configuration, or a constructor."""

from __future__ import annotations

from pathlib import Path

from lintrain.interpreter import objects
from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import (
    Transfer,
    attribute_of,
    class_method,
    family,
    function,
    method,
    method_of,
    stored_attribute_of,
)
from lintrain.knowledge.checkpoint_facts import checkpoint_facts
from lintrain.libraries.huggingface_hub import downloaded
from lintrain.model.location import Location
from lintrain.pipeline.events import Act
from lintrain.pipeline.modules import MODULE
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.loading import Named
from lintrain.pipeline.values.model import Config, Model, Task
from lintrain.pipeline.values.python import (
    ABSENT,
    UNKNOWN,
    Absent,
    Bound,
    Class,
    Constant,
    Function,
    Literal,
    Mapping,
    Unknown,
    Value,
    join,
    text_of,
)
from lintrain.startup.lazy_pattern import lazy_pattern

TASKS = {
    "ForSequenceClassification": Task.SEQUENCE_CLASSIFICATION,
    "ForTokenClassification": Task.TOKEN_CLASSIFICATION,
    "ForImageClassification": Task.IMAGE_CLASSIFICATION,
    "ForImageClassificationWithTeacher": Task.IMAGE_CLASSIFICATION,
    "ForAudioClassification": Task.AUDIO_CLASSIFICATION,
    "ForQuestionAnswering": Task.QUESTION_ANSWERING,
    "ForMultipleChoice": Task.MULTIPLE_CHOICE,
    "ForCausalLM": Task.CAUSAL_LM,
    "ForImageTextToText": Task.CAUSAL_LM,
    "ForVision2Seq": Task.CAUSAL_LM,
    "LMHeadModel": Task.CAUSAL_LM,
    "ForMaskedLM": Task.MASKED_LM,
    "ForSeq2SeqLM": Task.SEQ2SEQ_LM,
    "ForConditionalGeneration": Task.SEQ2SEQ_LM,
}
"""What a class's head is for, by the end of its name."""

CLASSIFIERS = frozenset(
    {
        Task.SEQUENCE_CLASSIFICATION,
        Task.TOKEN_CLASSIFICATION,
        Task.IMAGE_CLASSIFICATION,
        Task.AUDIO_CLASSIFICATION,
    }
)
"""Tasks whose head has one output for each class."""

DEFAULT_LABELS = 2
"""What a configuration without labels gives a head (transformers: `PreTrainedConfig.num_labels`)."""

MODEL = lazy_pattern(
    r"transformers\.(?P<name>\w*?(?:For[A-Z]\w+|LMHeadModel|Model))(\.from_pretrained|\.from_config)?$"
)
NOT_MODELS = lazy_pattern(r"DataCollator|Processor|Tokenizer|Extractor|Config|Trainer")

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
    given = call.value("pretrained_model_name_or_path", 0) if call.path.endswith("from_pretrained") else ABSENT
    checkpoint = downloaded(call.reader, given)
    values = {name: argument.value for name, argument in call.keywords.items()}
    is_complete = not call.is_open and not call.path.endswith(("from_dict", "for_model"))
    sized = head_size(values) if is_complete or HEAD_SIZE & set(values) else UNKNOWN
    return Config(call.path, checkpoint, values, {}, sized, is_complete, origin=call.location)


def head_size(values: dict[str, Value]) -> Value:
    """The number of labels that arguments ask for: `num_labels`, or the length of `id2label`; Absent if neither.

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
    return Bound(value, name) if method_of(value, name) else dispatch.child(reader, value, name)


@stored_attribute_of(Config)
def _store(reader: Reader, owner: Value, name: str, value: Value, location: Location) -> None:
    if not isinstance(owner, Config):
        return
    owner.attributes[name] = join([owner.attributes.get(name, UNKNOWN), value]) if reader.conditions else value
    reader.act(Act.REPLACE, location, owner, name=Constant(name), value=value)
    if name in HEAD_SIZE:
        owner.num_labels = UNKNOWN if reader.conditions else head_size({name: value})


@method(Config, "update")
def _update(call: Call) -> Value:
    """`config.update({name: value})` stores each entry as an attribute."""
    given = call.value("config_dict", 0)
    for name, value in (given.entries if isinstance(given, Mapping) else {}).items():
        if isinstance(name, str):
            _store(call.reader, call.receiver, name, value, call.location)
    return Constant(None)


def task_of(name: str) -> Task:
    """What a model class's head is for; a class that ends in `Model` has none."""
    for ending, task in TASKS.items():
        if name.endswith(ending):
            return task
    return Task.NO_HEAD if name.endswith("Model") else Task.UNKNOWN


def framework_of(name: str) -> str:
    """The framework that a model class is written for: `torch`, `tf` or `flax`."""
    if name.startswith(("TFAuto", "TF")) and name[2:3].isupper():
        return "tf"
    return "flax" if name.startswith("Flax") else "torch"


@family("transformers")
def _model(path: str) -> Transfer | None:
    found = MODEL.match(path)
    if found is None or NOT_MODELS.search(found["name"]):
        return None
    return make_model


@function(
    "trl.AutoModelForCausalLMWithValueHead.from_pretrained",
    "trl.AutoModelForSeq2SeqLMWithValueHead.from_pretrained",
)
def _with_value_head(call: Call) -> Value:
    return make_model(call)


def make_model(call: Call) -> Value:
    """A model as its call makes it."""
    path, _, how = call.path.rpartition(".")
    if how not in {"from_pretrained", "from_config"}:
        path, how = call.path, ""
    name = path.rpartition(".")[2]
    config = _config_of(call, how)
    model = Model(
        path,
        framework_of(name),
        how,
        task_of(name),
        _checkpoint_of(call, how, config),
        {name: argument.value for name, argument in call.keywords.items()},
        {name: argument.location for name, argument in call.keywords.items()},
        _head_size(call, config),
        config if isinstance(config, Config) else None,
        not call.is_open and "**" not in call.keywords,
        text=call.text,
        origin=call.location,
    )
    if model.task in CLASSIFIERS and isinstance(model.num_labels, Absent):
        model.labels_by_default = _labels_by_default(call, model)
    call.reader.record.models.append(model)
    return model


@class_method(MODULE, "from_pretrained", "from_config", "_from_config")
def _own_model(call: Call) -> Value:
    """A model of the script's own class, which derives from one of transformers; made with its configuration."""
    cls = call.receiver
    if not isinstance(cls, Class):
        return UNKNOWN
    config = call.argument("config") or Argument(Unknown(name="config"), call.location)
    own = cls.lookup("__init__")
    named = own[1].node.args if own is not None and isinstance(own[1], Function) else None
    taken = {each.arg for each in (*named.args, *named.kwonlyargs)} if named is not None else set[str]()
    keywords = {name: each for name, each in call.keywords.items() if name in taken and name != "config"}
    # Others may come out of the configuration, and what the checkpoint does to the weights is not known.
    making = Call(call.reader, None, call.location, "", cls, [config, *call.positional[1:]], keywords, is_open=True)
    made = objects.make_instance(making, cls)
    call.reader.act(Act.ESCAPE, call.location, made)
    return made


OUTPUT = lazy_pattern(r"transformers\.\w*Output(With\w+)?$")


@family("transformers")
def _output(path: str) -> Transfer | None:
    return _make_output if OUTPUT.match(path) else None


def _make_output(call: Call) -> Value:
    """`SequenceClassifierOutput(loss=loss, logits=logits)`: what an own model returns, by name or by place."""
    entries: dict[Literal, Value] = {name: each.value for name, each in call.keywords.items() if name != "**"}
    return Named(entries, not call.is_open and "**" not in call.keywords, origin=call.location)


def _config_of(call: Call, how: str) -> Value:
    """The configuration object that a model is made with; Absent if it comes with the checkpoint."""
    if how == "from_pretrained":
        return call.value("config")
    return call.value("config", 0)


def _checkpoint_of(call: Call, how: str, config: Value) -> Value:
    """The checkpoint that the weights, or at least the architecture, come from."""
    if how == "from_pretrained":
        return downloaded(call.reader, call.value("pretrained_model_name_or_path", 0))
    return config.checkpoint if isinstance(config, Config) else UNKNOWN


def _head_size(call: Call, config: Value) -> Value:
    """The number of labels that the script asks for, in the call or by the configuration that it passes."""
    given = head_size({name: argument.value for name, argument in call.keywords.items()})
    if not isinstance(given, Absent):
        return given
    if call.is_open or "**" in call.keywords:
        return UNKNOWN
    if isinstance(config, Config):
        return config.num_labels
    return ABSENT if isinstance(config, Absent) else UNKNOWN


def _labels_by_default(call: Call, model: Model) -> int | None:
    """The outputs of a head that the script does not size: those of the checkpoint, else the libraries' default."""
    name = text_of(model.checkpoint)
    if name is None:
        return DEFAULT_LABELS if isinstance(model.checkpoint, Absent) else None
    facts = checkpoint_facts(name, Path(call.reader.record.source.path).parent) or checkpoint_facts(name)
    return (facts.num_labels or len(facts.label_names) or DEFAULT_LABELS) if facts else None
