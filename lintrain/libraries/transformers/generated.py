"""What `generate` is given and gives: prompts written by a chat template, tokens that begin with the prompt."""

from __future__ import annotations

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import attribute_of, method, operated, subscript_of
from lintrain.model.location import Location
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.data import ColumnValues, Encoding, Padding, Tokenizer
from lintrain.pipeline.values.model import Model, Role, Task, Tensor
from lintrain.pipeline.values.python import ABSENT, UNKNOWN, Sequence, Value, is_missing, literal
from lintrain.pipeline.values.tensors import Generated, Templated, TemplatedTokens
from lintrain.startup.lazy_pattern import lazy_pattern

PROMPT_COMPARED = "prompt compared"
"""The use of a generated text, with its prompt, as an answer."""

FROM_TEMPLATE = "generated from template"
"""The use of a chat template for a prompt from which a model generates."""

RIGHT_PADDED = "generated after padding"
"""The use of a batch of prompts whose padding is between them and what is generated."""

ROW = lazy_pattern(r"(\w+)\[-?\d+\]")


def holds_prompt(reader: Reader, given: Argument) -> bool:
    """Whether tokens that are decoded are all that a causal model generated: `out`, or the row `out[0]` of it."""
    row = ROW.fullmatch(given.text)
    value: Value = given.value
    if row is not None:
        bound = (each.value for each in reversed(reader.record.bindings) if each.name == row[1])
        value = next(bound, value)
    if not isinstance(value, Tensor) or value.role is not Role.TOKENS or value.is_sliced:
        return False
    return isinstance(value.model, Model) and value.model.task is Task.CAUSAL_LM


@method(Generated, "strip", "lower", "upper", "lstrip", "rstrip", "casefold")
def _same(call: Call) -> Value:
    return call.receiver


@operated(Generated)
def _compare(reader: Reader, left: Value, operator: str, right: Value, location: Location) -> Value | None:
    """Record `text == answer`, which no text with its prompt is."""
    found = next((side for side in (left, right) if isinstance(side, Generated)), None)
    is_one = isinstance(left, Generated) is not isinstance(right, Generated)
    if operator in {"Eq", "NotEq"} and found is not None and is_one:
        reader.record.misuses.append(Misuse(location, found, PROMPT_COMPARED, reader.code(location)))
    return None


# Neither a device nor another axis changes which template wrote the tokens.
@method(TemplatedTokens, "to", "cuda", "long", "unsqueeze", "view", "reshape")
def _moved(call: Call) -> Value:
    return call.receiver


@subscript_of(TemplatedTokens)
def _part(_: Reader, value: Value, key: Value, __: Location) -> Value:
    """`tokens["input_ids"]`."""
    return value if literal(key) == "input_ids" else UNKNOWN


@attribute_of(TemplatedTokens)
def _attribute(_: Reader, value: Value, name: str, __: Location) -> Value | None:
    """`tokens.input_ids`."""
    return value if name == "input_ids" else None


def note_prompt(call: Call) -> None:
    """Record a prompt that a chat template wrote, where a model generates from its tokens."""
    for argument in (*call.positional, *call.keywords.values()):
        written = _template_of(argument.value)
        if written is not None and written.origin is not None:
            call.reader.record.misuses.append(Misuse(call.location, written, FROM_TEMPLATE, call.text))


def note_right_padding(call: Call) -> None:
    """Record prompts that are padded at their end, where a causal model generates from them."""
    model = call.receiver
    if not isinstance(model, Model) or model.task is not Task.CAUSAL_LM:
        return
    for argument in (*call.positional, *call.keywords.values()):
        value = argument.value.dataset if isinstance(argument.value, ColumnValues) else argument.value
        if isinstance(value, Encoding) and _is_padded_batch(value) and literal(_side_of(value)) == "right":
            call.reader.record.misuses.append(Misuse(call.location, value, RIGHT_PADDED, call.text))


def _is_padded_batch(encoded: Encoding) -> bool:
    """Whether an encoding holds several texts that are certainly padded."""
    inputs = encoded.inputs
    # A single prompt is the longest of its batch, so `padding=True` adds nothing to it.
    has_several = encoded.has_several or isinstance(inputs, ColumnValues)
    if isinstance(inputs, Sequence):
        has_several = not inputs.is_complete or len(inputs.items) > 1
    return encoded.padding is Padding.FIXED or (encoded.padding is Padding.LONGEST and has_several)


def _side_of(encoded: Encoding) -> Value:
    """The side on which an encoding is padded, if the script sets it."""
    tokenizer = encoded.tokenizer
    # Without a setting, the files of the checkpoint decide: many tokenizers of chat models pad on the left.
    given = encoded.arguments.get("padding_side", ABSENT)
    if not is_missing(given) or not isinstance(tokenizer, Tokenizer):
        return given
    return tokenizer.attributes.get("padding_side", tokenizer.arguments.get("padding_side", ABSENT))


def _template_of(value: Value) -> Templated | None:
    """The chat template that wrote the text of an encoding, or of a column of one, or its tokens."""
    if isinstance(value, TemplatedTokens):
        return value.text_of
    if isinstance(value, ColumnValues):
        value = value.dataset
    if not isinstance(value, Encoding):
        return None
    inputs, ids = value.inputs, value.columns.get("input_ids")
    written = inputs.column.written if isinstance(inputs, ColumnValues) else ids.written if ids is not None else None
    return written if isinstance(written, Templated) else None
