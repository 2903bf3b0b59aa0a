"""Two-layer models with the limits of their famous namesakes; random weights, the same in every build."""

from __future__ import annotations

from typing import Any

import torch
from transformers import (
    BertConfig,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    RobertaConfig,
    RobertaModel,
    T5Config,
    T5ForConditionalGeneration,
)

WIDTH = 64
SPREAD = 0.12
"""Standard deviation of the weights: far above the usual 0.02, so that a sentence shows in its first token's vector."""

GAIN = 16.0
"""Gain of the last layer norm: lets a head of 64 inputs learn at rates that are right for one of 768."""


def distilbert(vocabulary: int) -> PreTrainedModel:
    """A DistilBERT without a head: a classifier loaded from it starts with a new one."""
    config = DistilBertConfig(vocab_size=vocabulary, dim=WIDTH, hidden_dim=2 * WIDTH, n_layers=2, n_heads=4)
    model = _spread(DistilBertModel(config))
    _amplify(model, "transformer.layer.1.output_layer_norm")
    return model


def bert(vocabulary: int) -> PreTrainedModel:
    """A BERT with its pooler and without a head."""
    config = BertConfig(vocab_size=vocabulary, **_sizes())
    return _spread(BertModel(config))


def roberta(vocabulary: int) -> PreTrainedModel:
    """A RoBERTa without a head; 514 positions, of which 512 can be used."""
    tokens: dict[str, Any] = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
    config = RobertaConfig(vocab_size=vocabulary, max_position_embeddings=514, type_vocab_size=1, **_sizes(), **tokens)
    model = _spread(RobertaModel(config, add_pooling_layer=False))
    _amplify(model, "encoder.layer.1.output.LayerNorm")
    return model


def gpt2(vocabulary: int) -> PreTrainedModel:
    """A GPT-2 with 1024 positions and no padding token."""
    tokens: dict[str, Any] = {"bos_token_id": 0, "eos_token_id": 0}
    return GPT2LMHeadModel(GPT2Config(vocab_size=vocabulary, n_embd=WIDTH, n_layer=2, n_head=4, **tokens))


def llama(vocabulary: int) -> PreTrainedModel:
    """A Llama with rotary positions and no padding token."""
    tokens: dict[str, Any] = {"bos_token_id": 1, "eos_token_id": 2}
    config = LlamaConfig(vocab_size=vocabulary, **_sizes(), max_position_embeddings=2048, **tokens)
    return LlamaForCausalLM(config)


def t5(vocabulary: int) -> PreTrainedModel:
    """A T5 with relative positions."""
    sizes: dict[str, Any] = {"d_model": WIDTH, "d_kv": 16, "d_ff": 2 * WIDTH, "num_layers": 2, "num_heads": 4}
    sizes["decoder_start_token_id"] = 0
    return T5ForConditionalGeneration(T5Config(vocab_size=vocabulary, **sizes))


def _sizes() -> dict[str, Any]:  # keyword arguments of several configurations
    return {
        "hidden_size": WIDTH,
        "intermediate_size": 2 * WIDTH,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    }


def _spread(model: PreTrainedModel) -> PreTrainedModel:
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=SPREAD)
    return model


def _amplify(model: PreTrainedModel, norm: str) -> None:
    torch.nn.init.constant_(model.get_parameter(f"{norm}.weight"), GAIN)
