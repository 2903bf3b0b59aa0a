"""Unsloth where it is not installed: the same models and adapters of transformers and PEFT, without its kernels."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from lintrain.runtime.child.library import library
from lintrain.runtime.stand_ins.tokenizers import CHAT

OF_MODELS = re.compile(r"Fast(\w*)Model")
LORA = ("r", "target_modules", "lora_alpha", "lora_dropout", "bias", "use_rslora", "modules_to_save")
"""What `get_peft_model` passes on to the configuration of an adapter."""


def piece(name: str) -> Any | None:
    """What stands for a name of the package; None for one that only makes training faster."""
    found = OF_MODELS.fullmatch(name)
    if found is not None:
        return FastVisionModel if found[1] == "Vision" else FastModel
    return PIECES.get(name)


class FastModel:
    """`FastLanguageModel` and its like: a model with its tokenizer."""

    classes = ("AutoModelForCausalLM", "AutoTokenizer")

    @classmethod
    def from_pretrained(cls, model_name: str = "", *_: Any, dtype: Any = None, **__: Any) -> tuple[Any, Any]:
        """A model of transformers, and a tokenizer with a token that pads."""
        transformers = library("transformers")
        kind, reader = (getattr(transformers, name) for name in cls.classes)
        given = {} if dtype is None else {"dtype": dtype}
        made, reads = kind.from_pretrained(model_name, **given), reader.from_pretrained(model_name)
        tokenizer = getattr(reads, "tokenizer", reads)
        # Unsloth adds such a token by itself, so its scripts do not.
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        return made, reads

    @staticmethod
    def get_peft_model(model: Any, r: int = 16, target_modules: Any = None, **given: Any) -> Any:
        """The model with an adapter; without names of layers all linear ones have one, as there."""
        peft = library("peft")
        kept = {name: value for name, value in given.items() if name in LORA}
        layers = "all-linear" if target_modules is None else target_modules
        return peft.get_peft_model(model, peft.LoraConfig(r=r, target_modules=layers, task_type="CAUSAL_LM", **kept))

    @staticmethod
    def for_training(model: Any, *_: Any, **__: Any) -> Any:
        """The model in the mode of training."""
        return model.train()

    @staticmethod
    def for_inference(model: Any, *_: Any, **__: Any) -> Any:
        """The model in the mode of evaluation."""
        return model.eval()


class FastVisionModel(FastModel):
    """A model of images and text with its processor."""

    classes = ("AutoModelForImageTextToText", "AutoProcessor")


def _first(value: Any, *_: Any, **__: Any) -> Any:
    return value


def _with_template(tokenizer: Any, *_: Any, **__: Any) -> Any:
    tokenizer.chat_template = tokenizer.chat_template or CHAT
    return tokenizer


def _collator(_: Any, processor: Any, *__: Any, **___: Any) -> Any:
    return library("trl.trainer.sft_trainer").DataCollatorForVisionLanguageModeling(processor)


def _trainer(*args: Any, **given: Any) -> Any:
    return library("trl").SFTTrainer(*args, **given)


def _arguments(*args: Any, embedding_learning_rate: Any = None, **given: Any) -> Any:
    return library("trl").SFTConfig(*args, **given)


def _no(*_: Any, **__: Any) -> bool:
    return False


PIECES: Mapping[str, Callable[..., Any]] = {
    "get_chat_template": _with_template,
    "train_on_responses_only": _first,
    "standardize_sharegpt": _first,
    "standardize_data_formats": _first,
    "is_bfloat16_supported": _no,
    "is_bf16_supported": _no,
    "UnslothTrainer": _trainer,
    "UnslothTrainingArguments": _arguments,
    "UnslothVisionDataCollator": _collator,
}
"""Functions and classes that a training is not the same without."""
