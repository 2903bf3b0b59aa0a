"""Labels of Whisper that keep the token with which its tokenizer starts them, or lose the one that ends them.

The model shifts labels to the right and puts `decoder_start_token_id` in front of them, so a collator has to drop the
first token of each row. Its padding token is its end token, so only the attention mask tells them apart.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.source.nodes import unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_pattern import lazy_pattern

MASKED = lazy_pattern(r"-\s*100\b|\bLABEL_PAD|ignore_index")
TRAINS = lazy_pattern(r"\bSeq2SeqTrainer\(|\bTrainer\(|\.backward\(|\bdef training_step\b")
DROPS_START = lazy_pattern(
    r"\[\s*(?::|\.\.\.)\s*,\s*1\s*:|(?:label|ids|token)\w*(?:[\"']\])?\[1:|decoder_start_token|bos_token"
    r"|startoftranscript|add_special_tokens *= *False|prefix_tokens|decoder_input_ids"
)
"""Code that may drop the first token, or gives the decoder inputs of its own."""

TOKENIZER = lazy_pattern(r"(?:^|\.)(?:\w*_)?tokenizer(?:\.encode)?$")


def kept_start_tokens(pipeline: Pipeline) -> Iterator[Location]:
    """The calls that tokenize the labels of a script that trains Whisper with a collator of its own."""
    texts = pipeline.sources.values()
    if not any(each.contains(TRAINS) for each in texts) or not any(each.contains(MASKED) for each in texts):
        return
    if any(each.contains(DROPS_START) for each in texts):
        return
    for source in texts:
        yield from map(source.location, _label_calls(source))


def _label_calls(source: Source) -> Iterator[ast.Call]:
    for node in source.nodes_of(ast.Assign, ast.Dict):
        match node:
            case ast.Assign(targets=[target], value=value) if "label" in unparse(target):
                pairs = [value]
            case ast.Dict(keys=keys, values=values):
                pairs = [
                    value
                    for key, value in zip(keys, values, strict=True)
                    if isinstance(key, ast.Constant) and key.value == "labels"
                ]
            case _:
                continue
        for value in pairs:
            if (call := _tokens_of(value)) is not None:
                yield call


def _tokens_of(value: ast.expr) -> ast.Call | None:
    """The call whose token ids are a value: `tokenizer(text).input_ids`, `tokenizer.encode(text)`."""
    match value:
        case ast.Attribute(value=ast.Call() as call, attr="input_ids"):
            is_ids = True
        case ast.Subscript(value=ast.Call() as call, slice=ast.Constant(value="input_ids")):
            is_ids = True
        case ast.Call() as call:
            is_ids = unparse(call.func).endswith(".encode")
        case _:
            return None
    return call if is_ids and call.args and TOKENIZER.search(unparse(call.func)) else None


def masked_ends(source: Source) -> Iterator[Location]:
    """Where labels lose the tokens that equal `pad_token_id`: `labels[labels == tokenizer.pad_token_id] = -100`."""
    for node in source.nodes_of(ast.Assign, ast.Call, ast.IfExp):
        match node:
            case ast.Assign(targets=[ast.Subscript(slice=ast.Compare() as test)], value=value):
                masks = _is_ignored(value)
            case ast.Call(func=ast.Attribute(attr="masked_fill" | "masked_fill_"), args=[ast.Compare() as test, value]):
                masks = _is_ignored(value)
            case ast.Call(func=ast.Attribute(attr="where"), args=[ast.Compare() as test, first, second]):
                masks = _is_ignored(first if isinstance(test.ops[0], ast.Eq) else second)
            case ast.IfExp(test=ast.Compare() as test, body=first, orelse=second):
                masks = _is_ignored(first if isinstance(test.ops[0], ast.Eq) else second)
            case _:
                continue
        if masks and isinstance(test.comparators[0], ast.Attribute) and test.comparators[0].attr == "pad_token_id":
            yield source.location(node)


def _is_ignored(node: ast.expr) -> bool:
    return unparse(node) == "-100"
