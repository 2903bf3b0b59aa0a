"""The vocabularies of published checkpoints: which share theirs, and code that gives a model another one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import script_text, token_feeds
from lintrain.model.location import Location
from lintrain.pipeline import blocks
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.data import Tokenizer
from lintrain.pipeline.values.model import Model, Task
from lintrain.pipeline.values.python import Mapping, text_of
from lintrain.source.nodes import walk
from lintrain.source.source import Source
from lintrain.startup.lazy_pattern import lazy_pattern

FAMILIES = (
    {"bert", "distilbert", "electra", "mobilebert"},
    {"roberta", "bart", "longformer", "led"},
    {"gpt2"},
    {"t5"},
    {"albert"},
    {"xlm-roberta"},
    {"llama", "mistral"},
)
"""Model types whose tokenizers give the same text other ids than those of every other line."""

BY_NAME = (
    (lazy_pattern(r"(meta-llama|mistralai)/"), "llama"),
    (lazy_pattern(r"Qwen/Qwen"), "qwen"),
    (lazy_pattern(r"google/(code|function|med|shield|tx|vault)?gemma"), "gemma"),
    (lazy_pattern(r"HuggingFaceTB/SmolLM"), "smollm"),
    (lazy_pattern(r"tiiuae/falcon-\d"), "falcon"),
    (lazy_pattern(r"bigscience/bloom"), "bloom"),
    (lazy_pattern(r"EleutherAI/(pythia|gpt-neox)"), "gpt_neox"),
    (lazy_pattern(r"EleutherAI/gpt-(j|neo-\d)"), "gpt2"),
    # Copies and fine-tuned versions, by the name that says the line and the size: `models/llama3.2-1b`.
    (lazy_pattern(r"(?i)(.*/)?(meta-|tiny|code)?(llama|vicuna|mistral|mixtral|zephyr)[\w.-]*?\d+b\b"), "llama"),
    (lazy_pattern(r"(?i)(.*/)?qwen[\w.-]*?\d+b\b"), "qwen"),
    (lazy_pattern(r"(?i)(.*/)?gemma[\w.-]*?\d+b\b"), "gemma"),
)
"""Checkpoints of publishers whose models have a vocabulary of their own, which no other line has."""

NEW_VOCABULARY = r"set_input_embeddings|from_encoder_decoder_pretrained|(word_embeddings|embed_tokens|wte)\s*=[^=]"
"""Code that gives a model another embedding, or one vocabulary each for encoder and decoder."""

PADDING_NAMES = frozenset({"pad_token", "pad_token_id"})
"""What a tokenizer without a padding token is asked for."""

TEXT_TASKS = frozenset(Task) - {
    Task.IMAGE_CLASSIFICATION,
    Task.AUDIO_CLASSIFICATION,
    Task.NO_HEAD,
    Task.UNKNOWN,
}
"""Tasks of models that read nothing but texts."""


def line_of(pipeline: Pipeline, owner: Tokenizer | Model) -> str | None:
    """The line of models that share their vocabulary, by the type of a checkpoint or by its publisher's name."""
    facts, name = token_feeds.certain_facts(pipeline, owner), text_of(owner.checkpoint) or ""
    found = next((sorted(types)[0] for types in FAMILIES if facts is not None and facts.model_type in types), None)
    return found or next((line for pattern, line in BY_NAME if pattern.match(name)), None)


def strangers(pipeline: Pipeline) -> Iterator[tuple[Location, Tokenizer, Model]]:
    """The tokenizers of a line that none of the models of their function has, with one of these models.

    Each model has a tokenizer there, which is this one or belongs to another line of models, too.
    """
    for tokenizer in pipeline.tokenizers:
        made, line = tokenizer.origin, line_of(pipeline, tokenizer)
        if made is None or line is None:
            continue
        models = [each for each in pipeline.models if _are_near(pipeline, each.origin, made)]
        others = [each for each in pipeline.tokenizers if _are_near(pipeline, each.origin, made)]
        lines = [line_of(pipeline, each) for each in models if each.task in TEXT_TASKS]
        if models and len(lines) == len(models) == len(others) and None not in lines and line not in lines:
            yield made, tokenizer, models[-1]


def _are_near(pipeline: Pipeline, one: Location | None, other: Location) -> bool:
    is_here = one is not None and one.path == other.path == pipeline.source.path
    return is_here and one is not None and blocks.scope_of(pipeline, one) is blocks.scope_of(pipeline, other)


def only_pads(tokenizer: Tokenizer) -> bool:
    """Whether nothing but a padding token may have been added to a vocabulary."""
    return all(
        isinstance(each.value, Mapping) and each.value.is_complete and set(each.value.entries) <= {"pad_token"}
        for each in tokenizer.additions
    )


def are_replaced(pipeline: Pipeline) -> bool:
    """Whether code may give a model the vocabulary of the tokenizer; a row more for its padding is none."""
    if script_text.mentions(pipeline, NEW_VOCABULARY):
        return True
    return any(source.cached(_resizes) for source in pipeline.sources.values())


def _resizes(source: Source) -> bool:
    """Whether an embedding is resized otherwise than where the tokenizer has no padding token."""
    for_padding = {
        id(node)
        for test in source.nodes_of(ast.If)
        if any(isinstance(each, ast.Attribute) and each.attr in PADDING_NAMES for each in walk(test.test))
        for statement in test.body
        for node in walk(statement)
    }
    resizes = (each for each in source.nodes_of(ast.Attribute) if each.attr == "resize_token_embeddings")
    return any(id(each) not in for_padding for each in resizes)
