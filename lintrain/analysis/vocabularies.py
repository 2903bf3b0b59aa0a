"""The vocabularies of published checkpoints: which share theirs, and code that gives a model another one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import script_text, token_feeds
from lintrain.model.location import Location
from lintrain.pipeline import blocks
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.data import Tokenizer
from lintrain.pipeline.values.model import Model
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
    (lazy_pattern(r"EleutherAI/gpt-(j|neo-\d)|microsoft/(phi-[12]|DialoGPT)|Salesforce/codegen-"), "gpt2"),
    (lazy_pattern(r"(google|google-t5)/(flan-)?t5"), "t5"),
    (lazy_pattern(r"facebook/opt-"), "opt"),
    # These have the vocabulary of the model that they were made from.
    (lazy_pattern(r"deepseek-ai/"), "deepseek llama qwen"),
    (lazy_pattern(r"microsoft/Phi-[34]"), "llama phi"),
    # Copies and fine-tuned versions, by the name that says the line and the size: `models/llama3.2-1b`.
    (lazy_pattern(r"(?i)(.*/)?(meta-|tiny|code|open_)?(llama|vicuna|mistral|mixtral|zephyr)[\w.-]*?\d+b\b"), "llama"),
    (lazy_pattern(r"(?i)(.*/)?qwen[\w.-]*?\d+b\b"), "qwen"),
    (lazy_pattern(r"(?i)(.*/)?gemma[\w.-]*?\d+b\b"), "gemma"),
)
"""Checkpoints of publishers with the lines of models whose vocabulary they may have."""

NEW_VOCABULARY = r"set_input_embeddings|from_encoder_decoder_pretrained|(word_embeddings|embed_tokens|wte)\s*=[^=]"
"""Code that gives a model another embedding, or one vocabulary each for encoder and decoder."""

PADDING_NAMES = frozenset({"pad_token", "pad_token_id"})
"""What a tokenizer without a padding token is asked for."""


def lines_of(pipeline: Pipeline, owner: Tokenizer | Model) -> frozenset[str]:
    """The lines of models whose vocabulary a checkpoint may have, by its type or its name; empty if not known."""
    facts, name = token_feeds.certain_facts(pipeline, owner), text_of(owner.checkpoint) or ""
    found = next((sorted(types)[0] for types in FAMILIES if facts is not None and facts.model_type in types), None)
    found = found or next((lines for pattern, lines in BY_NAME if pattern.match(name)), "")
    return frozenset(found.split())


def are_strangers(pipeline: Pipeline, one: Tokenizer | Model, other: Tokenizer | Model) -> bool:
    """Whether two checkpoints are certainly of lines that do not share a vocabulary."""
    lines, others = lines_of(pipeline, one), lines_of(pipeline, other)
    return bool(lines and others) and lines.isdisjoint(others)


def strangers(pipeline: Pipeline) -> Iterator[tuple[Location, Tokenizer, Model]]:
    """The tokenizers of a line that none of the models of their function has, with one of these models.

    The only tokenizer of a file is for all of its models. Where one of these has a tokenizer of its line, each model
    must have one.
    """
    for tokenizer in pipeline.tokenizers:
        made = tokenizer.origin
        if made is None or made.path != pipeline.source.path or not lines_of(pipeline, tokenizer):
            continue
        is_only = len(pipeline.tokenizers) == 1
        models = [each for each in pipeline.models if is_only or _are_near(pipeline, each.origin, made)]
        if any(_is_in_network(pipeline, each.origin) for each in models):
            continue
        others = [each for each in pipeline.tokenizers if is_only or _are_near(pipeline, each.origin, made)]
        if models and all(are_strangers(pipeline, tokenizer, each) for each in models):
            fits = any(not are_strangers(pipeline, each, model) for each in others for model in models)
            if not fits or len(models) == len(others):
                yield made, tokenizer, models[-1]


def _is_in_network(pipeline: Pipeline, made: Location | None) -> bool:
    """Whether a model is a part of the script's own network, which may change what it is given."""
    networks = (
        node
        for node in pipeline.source.nodes_of(ast.ClassDef)
        if any(isinstance(each, ast.FunctionDef) and each.name == "forward" for each in node.body)
    )
    return made is not None and any(pipeline.source.location(node).holds(made) for node in networks)


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
