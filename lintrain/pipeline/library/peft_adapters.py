"""PEFT: adapters put into a model."""

from __future__ import annotations

from lintrain.pipeline.call import Call
from lintrain.pipeline.library.transformers_models import make_model
from lintrain.pipeline.registry import function
from lintrain.pipeline.values.model import Model
from lintrain.pipeline.values.python import UNKNOWN, Value, options_of


@function("peft.get_peft_model", "peft.PeftModel.from_pretrained", "peft.PeftModel")
@function("peft.PeftModelForSequenceClassification", "peft.PeftModelForCausalLM")
@function("peft.PeftModelForTokenClassification", "peft.PeftModelForSeq2SeqLM")
def _adapt(call: Call) -> Value:
    """The model itself: PEFT puts its layers into the given one and freezes the others."""
    given = call.value("model", 0)
    for model in options_of(given):
        if isinstance(model, Model):
            model.is_adapted = True
            model.frozen.append(call.place)
    return given


@function("peft.prepare_model_for_kbit_training", "peft.prepare_model_for_int8_training")
def _prepare(call: Call) -> Value:
    """The model itself, frozen until an adapter is added."""
    given = call.value("model", 0)
    for model in options_of(given):
        if isinstance(model, Model):
            model.frozen.append(call.place)
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
    return model
