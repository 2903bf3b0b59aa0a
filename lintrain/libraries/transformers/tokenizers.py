"""Tokenizers and collators of transformers."""

from __future__ import annotations

from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import (
    Transfer,
    attribute_of,
    family,
    method,
    method_of,
    stored_attribute_of,
)
from lintrain.model.location import Location
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.data import Tokenizer
from lintrain.pipeline.values.model import Role, Tensor
from lintrain.pipeline.values.python import UNKNOWN, Mapping, Value, join
from lintrain.pipeline.values.tensors import SPECIAL_TOKENS, SpecialToken, TokenSetting
from lintrain.startup.lazy_pattern import lazy_pattern

MADE = lazy_pattern(r"transformers\.\w*(?:Tokenizer(?:Fast)?|Processor|FeatureExtractor)(?:\.from_pretrained)?$")


@family("transformers")
def _tokenizer(path: str) -> Transfer | None:
    return make_tokenizer if MADE.match(path) else None


def make_tokenizer(call: Call) -> Value:
    """`AutoTokenizer.from_pretrained(checkpoint)`."""
    is_loaded = call.path.endswith(".from_pretrained")
    made = Tokenizer(
        call.path.removesuffix(".from_pretrained"),
        call.value("pretrained_model_name_or_path", 0) if is_loaded else UNKNOWN,
        call.values("pretrained_model_name_or_path") if is_loaded else call.values(),
        is_complete=not call.is_open and "**" not in call.keywords,
        depth=len(call.reader.conditions),
        origin=call.location,
    )
    for name, argument in call.keywords.items():
        if name in SPECIAL_TOKENS:
            made.settings.append(TokenSetting(name, argument.value, argument.keyword or argument.location))
    call.reader.record.tokenizers.append(made)
    return made


@stored_attribute_of(Tokenizer)
def _set(reader: Reader, owner: Value, name: str, value: Value, location: Location) -> None:
    """`tokenizer.pad_token = ...`; one that may be skipped leaves it open."""
    if not isinstance(owner, Tokenizer):
        return
    before = owner.attributes.get(name, UNKNOWN)
    owner.attributes[name] = value if not reader.conditions else join([before, value])
    if name in SPECIAL_TOKENS:
        owner.settings.append(TokenSetting(name, value, location, tuple(reader.conditions[owner.depth :])))


@attribute_of(Tokenizer)
def _get(reader: Reader, value: Value, name: str, location: Location) -> Value | None:
    """What was set, or one unknown thing for each name, so that `pad_token = eos_token` can be followed."""
    if not isinstance(value, Tokenizer) or method_of(value, name) is not None:
        return None
    if name == "tokenizer" and value.is_processor:
        own = Tokenizer("transformers.AutoTokenizer", value.checkpoint, value.arguments, origin=value.origin)
        return value.attributes.setdefault(name, own)
    if name in SPECIAL_TOKENS:
        return SpecialToken(name=name, owner=value, origin=location)
    known = value.attributes.get(name, value.arguments.get(name))
    return known or dispatch.child(reader, value, name)


@method(Tokenizer, "add_special_tokens")
def _add_special_tokens(call: Call) -> Value:
    """`add_special_tokens({"pad_token": "[PAD]"})` sets attributes and grows the vocabulary."""
    tokenizer, given = call.receiver, call.value("special_tokens_dict", 0)
    if isinstance(tokenizer, Tokenizer):
        _add(call, tokenizer, given)
        entries = given.entries if isinstance(given, Mapping) else {"pad_token": UNKNOWN}
        for name, value in entries.items():
            _set(call.reader, tokenizer, str(name), value, call.location)
    return UNKNOWN


@method(Tokenizer, "add_tokens")
def _add_tokens(call: Call) -> Value:
    if isinstance(call.receiver, Tokenizer):
        _add(call, call.receiver, call.value("new_tokens", 0))
    return UNKNOWN


@method(Tokenizer, "decode", "batch_decode")
def _decode(call: Call) -> Value:
    """Texts out of token ids: logits are none, and labels are not as long as -100 may be among them."""
    given = call.argument("sequences", 0) or call.argument("token_ids")
    if given is not None and isinstance(given.value, Tensor) and given.value.role in {Role.LABELS, Role.LOGITS}:
        made = Misuse(given.location, given.value, call.path.rpartition(".")[2], given.text)
        call.reader.record.misuses.append(made)
    return UNKNOWN


def _add(call: Call, tokenizer: Tokenizer, tokens: Value) -> None:
    conditions = tuple(call.reader.conditions[tokenizer.depth :])
    tokenizer.additions.append(TokenSetting("tokens", tokens, call.location, conditions))


@method(Tokenizer, "save_pretrained", "convert_tokens_to_ids", "convert_ids_to_tokens")
@method(Tokenizer, "get_vocab", "__len__", "tokenize", "as_target_tokenizer", "push_to_hub")
def _harmless(call: Call) -> Value:
    """What looks at a tokenizer and changes nothing."""
    return UNKNOWN
