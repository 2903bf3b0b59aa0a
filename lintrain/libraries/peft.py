"""PEFT: adapters put into a model."""

from __future__ import annotations

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.registry import function
from lintrain.libraries.torch.freezing import freeze
from lintrain.libraries.transformers.models import make_model
from lintrain.pipeline.events import Act
from lintrain.pipeline.values.model import Model
from lintrain.pipeline.values.python import UNKNOWN, Constant, Value, options_of

CLASSES = (
    "peft.PeftModel",
    "peft.PeftModelForSequenceClassification",
    "peft.PeftModelForCausalLM",
    "peft.PeftModelForTokenClassification",
    "peft.PeftModelForSeq2SeqLM",
    "peft.PeftModelForQuestionAnswering",
    "peft.PeftModelForFeatureExtraction",
)


@function("peft.get_peft_model", *CLASSES, *(f"{path}.from_pretrained" for path in CLASSES))
def _adapt(call: Call) -> Value:
    """The model itself: PEFT puts its layers into the given one and freezes the others."""
    given = call.value("model", 0)
    config = call.value("config") if call.path.endswith("from_pretrained") else call.value("peft_config", 1)
    _put_into(call, given, config)
    # PEFT wraps the model but changes it in place too: what is done to either afterwards is done to both.
    return given


def _put_into(call: Call, given: Value, config: Value) -> None:
    for model in options_of(given):
        if isinstance(model, Model):
            model.is_adapted = True
            model.frozen.append(call.location)
            note_adapter(call, model, config)


@function("peft.inject_adapter_in_model")
def _inject(call: Call) -> Value:
    given = call.value("model", 1)
    _put_into(call, given, call.value("peft_config", 0))
    return given


@function("peft.prepare_model_for_kbit_training", "peft.prepare_model_for_int8_training")
def _prepare(call: Call) -> Value:
    """The model itself, frozen until an adapter is added."""
    given = call.value("model", 0)
    for model in options_of(given):
        if isinstance(model, Model):
            # Recorded as freezing, since a model that is prepared and never gets an adapter has nothing to
            # train.
            freeze(call.reader, model, Constant(False), call.location)
            call.reader.act(Act.PREPARE, call.location, model)
    return given


@function(
    "peft.AutoPeftModelForCausalLM.from_pretrained",
    "peft.AutoPeftModelForSequenceClassification.from_pretrained",
    "peft.AutoPeftModelForTokenClassification.from_pretrained",
    "peft.AutoPeftModelForSeq2SeqLM.from_pretrained",
)
def _load_adapted(call: Call) -> Value:
    """A model with its adapter: the head comes with them."""
    model = make_model(call)
    if isinstance(model, Model):
        model.is_adapted = True
        model.num_labels = UNKNOWN
        note_adapter(call, model, UNKNOWN)
    return model


def note_adapter(call: Call, model: Model, config: Value) -> None:
    """Note that a call puts an adapter into a model."""
    trainable = call.value("is_trainable")
    call.reader.act(Act.ADAPT, call.location, model, how=Constant(call.path), config=config, is_trainable=trainable)
