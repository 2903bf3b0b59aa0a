"""Facts about the checkpoints of tokenizers, and the special tokens that a script sets and writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lintrain.knowledge.checkpoint_facts import checkpoint_facts
from lintrain.knowledge.tables import CheckpointFacts
from lintrain.model.location import Location
from lintrain.pipeline.events import Act
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.data import ColumnValues, Encoding, Tokenizer
from lintrain.pipeline.values.model import Model
from lintrain.pipeline.values.python import Constant, Either, Sequence, Value, literal
from lintrain.pipeline.values.tensors import SpecialToken, Templated, Text, TokenSetting
from lintrain.startup.lazy_pattern import lazy_pattern

PAD_SETTINGS = frozenset({"pad_token", "pad_token_id"})
"""Attributes of a tokenizer that set its padding token."""

EOS_TEXTS = {
    "gpt2": ("<|endoftext|>",),
    "gpt_neo": ("<|endoftext|>",),
    "phi": ("<|endoftext|>",),
    "mistral": ("</s>",),
}
"""The text of the EOS token by model type; Llama has another one in each generation."""

ABOUT_PADDING = lazy_pattern(r"pad_token|padding")
"""Conditions that test for a padding token."""


def certain_facts(pipeline: Pipeline, owner: Tokenizer | Model) -> CheckpointFacts | None:
    """The facts about the checkpoint of a tokenizer or model; None if the checkpoint is not certain or not known."""
    name = literal(owner.checkpoint)
    if not isinstance(name, str):
        return None
    known = pipeline.checkpoints
    if name not in known:
        known[name] = checkpoint_facts(name, Path(pipeline.source.path).parent) or checkpoint_facts(name)
    return known[name]


def is_handed_over(pipeline: Pipeline, owner: Value) -> bool:
    """Whether unknown code gets a tokenizer or model, and may change it."""
    return any(event.subject is owner for event in pipeline.acts(Act.ESCAPE))


def lacks_pad(pipeline: Pipeline, tokenizer: Tokenizer) -> bool:
    """Whether a tokenizer certainly has no padding token, and the script never sets one."""
    facts = certain_facts(pipeline, tokenizer)
    is_untouched = not any(setting.name in PAD_SETTINGS for setting in tokenizer.settings)
    others = [name for name in tokenizer.attributes if "pad" in name and name != "padding_side"]
    known = facts is not None and facts.has_pad_token is False and tokenizer.is_complete
    return known and is_untouched and not others and not is_handed_over(pipeline, tokenizer)


def padding_by_eos(pipeline: Pipeline, tokenizer: Tokenizer) -> TokenSetting | None:
    """The setting that makes the EOS token the padding token; None if it is not certain or changed later."""
    settings = [setting for setting in tokenizer.settings if setting.name in PAD_SETTINGS]
    if not settings or is_handed_over(pipeline, tokenizer):
        return None
    facts = certain_facts(pipeline, tokenizer)
    lacks = facts is not None and facts.has_pad_token is False
    if not all(_is_eos_of(setting, tokenizer, facts) for setting in settings):
        return None
    return next((setting for setting in settings if is_certain_setting(setting, lacks_own=lacks)), None)


def _is_eos_of(setting: TokenSetting, tokenizer: Tokenizer, facts: CheckpointFacts | None) -> bool:
    value = setting.value
    if isinstance(value, SpecialToken):
        return value.kind == "eos" and value.owner is tokenizer
    return literal(value) in EOS_TEXTS.get((facts.model_type or "") if facts else "", ())


def is_certain_setting(setting: TokenSetting, *, lacks_own: bool) -> bool:
    """Whether a setting certainly runs; with `lacks_own` a test for a missing padding token is true."""
    return all(lacks_own and ABOUT_PADDING.search(condition.code) for condition in setting.conditions)


def location_in_data(pipeline: Pipeline, tokenizer: Tokenizer, kind: str) -> Location | None:
    """The first location that writes a special token (`eos`, `bos`) of a tokenizer into text of the data."""
    facts = certain_facts(pipeline, tokenizer)
    written = EOS_TEXTS.get((facts.model_type or "") if facts else "", ()) if kind == "eos" else ()
    for text in pipeline.texts:
        parts = list(parts_of(text))
        if any(_is_token(part, tokenizer, kind, written) for part in parts) and any(map(_varies, parts)):
            return text.origin
    return None


def parts_of(text: Text) -> Iterator[Value]:
    """The parts of a text in order, with nested texts flattened."""
    for part in text.parts:
        inner = part.column.written if isinstance(part, ColumnValues) else part
        if isinstance(inner, Text):
            yield from parts_of(inner)
        else:
            yield part if inner is None else inner


def _is_token(part: Value, tokenizer: Tokenizer, kind: str, written: tuple[str, ...]) -> bool:
    if isinstance(part, SpecialToken):
        return part.owner is tokenizer and part.kind == kind
    held = part.value if isinstance(part, Constant) else None
    return isinstance(held, str) and any(token in held for token in written)


def _varies(part: Value) -> bool:
    """Whether a part of a text comes from data: neither a literal nor a special token."""
    return not isinstance(part, Constant | SpecialToken)


def written_texts(encoding: Encoding) -> list[Value]:
    """The texts that the script builds for a tokenizer call: passed directly, or as rows of a list or column."""
    pending, found = [encoding.inputs], list[Value]()
    while pending:
        value = pending.pop()
        if isinstance(value, Text | Templated):
            found.append(value)
        elif isinstance(value, ColumnValues) and value.column.written is not None:
            pending.append(value.column.written)
        elif isinstance(value, Sequence):
            pending.extend(value.items[:4])
        elif isinstance(value, Either) and all(map(_is_written, value.options)):
            pending.extend(value.options)
    return found


def _is_written(value: Value) -> bool:
    if isinstance(value, ColumnValues):
        return value.column.written is not None
    return isinstance(value, Text | Templated | Sequence)


def opening_of(text: Value) -> Value | None:
    """The first part of a text that the script builds."""
    return next(parts_of(text), None) if isinstance(text, Text) else text
