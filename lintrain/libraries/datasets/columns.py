"""What a column contains, determined from the values that code puts into it."""

from __future__ import annotations

from collections.abc import Sequence as SequenceType
from dataclasses import replace

from lintrain.pipeline.values.data import Column, ColumnValues, Feature, Kind, Padding
from lintrain.pipeline.values.frames import Series
from lintrain.pipeline.values.python import Constant, Either, Library, Sequence, Value, join
from lintrain.pipeline.values.tokens import Templated, Text

IGNORED = -100
"""The label that torch's and transformers' losses leave out."""

TOKEN_COLUMNS = frozenset({"input_ids", "decoder_input_ids"})
MASK_COLUMNS = frozenset({"attention_mask", "token_type_ids", "decoder_attention_mask", "special_tokens_mask"})

TYPE_KINDS = {
    "string": Kind.TEXT,
    "large_string": Kind.TEXT,
    "bool": Kind.INTEGER,
    "float16": Kind.FLOAT,
    "float32": Kind.FLOAT,
    "float64": Kind.FLOAT,
}
"""Kinds by the name of an Arrow type; integer types are recognized by their prefix."""

MOST_PARTS = 8
"""Items of a list that are looked at to determine its kind."""


def kind_of_type(name: str) -> Kind:
    """What a column of an Arrow type holds: `string`, `int64`, `float32`."""
    if name.startswith(("int", "uint")):
        return Kind.INTEGER
    return TYPE_KINDS.get(name, Kind.UNKNOWN)


def column_of(name: str, value: Value, *, is_batch: bool) -> Column:
    """The column that this value becomes; of a batch, each item of it is a row."""
    row = _any_of(value.items) if is_batch and isinstance(value, Sequence) and value.items else value
    if is_batch and isinstance(value, Sequence) and not value.items:
        row = value
    found = _described(row)
    if found.kind is Kind.UNKNOWN:
        # Only if the value shows nothing: code that fills `input_ids` with text is a mistake, and its
        # name must not hide that.
        found = replace(found, kind=kind_by_name(name))
    return found.named(name)


def _any_of(items: list[Value]) -> Value:
    """What stands for any of the items: the first of plain texts or plain numbers, however many there are."""
    # A literal column of 10,000 texts is described by the first of them. Joining all would make an Unknown
    # of more than four.
    plain = {type(item.value) for item in items if isinstance(item, Constant) and not item.is_default}
    is_plain = len(plain) == 1 and all(isinstance(item, Constant) and not item.is_default for item in items)
    return items[0] if is_plain and not any(masks_some(item) for item in items) else join(items)


def kind_by_name(name: str) -> Kind:
    """What a column certainly holds by its name alone: only the inputs of a transformers model have one."""
    if name in TOKEN_COLUMNS:
        return Kind.TOKENS
    return Kind.MASK if name in MASK_COLUMNS else Kind.UNKNOWN


def _described(value: Value) -> Column:
    match value:
        case ColumnValues(column=column):
            return replace(column, copied_from=column.copied_from or column.name)
        case Feature(column=column) | Series(column=column):
            return column
        case Text() | Templated():
            return Column("", Kind.TEXT, written=value)
        case Constant(value=plain):
            return Column("", _kind_of_literal(plain))
        case Sequence(items=items) if items:
            return _listed(_merged(items))
        case Either(options=options):
            return _merged(options)
        case _:
            return Column("")


def _kind_of_literal(plain: object) -> Kind:
    match plain:
        case str():
            return Kind.TEXT
        case bool() | int():
            return Kind.INTEGER
        case float():
            return Kind.FLOAT
        case _:
            return Kind.UNKNOWN


def _listed(item: Column) -> Column:
    """A list of such items: token ids stay token ids, everything else is a list."""
    # A list of token rows is a batch, and its column holds token rows. A list of numbers in each row is
    # something new.
    if item.kind in {Kind.TOKENS, Kind.MASK, Kind.UNKNOWN}:
        return replace(item, padding=Padding.UNKNOWN, truncated=None)
    return Column("", Kind.LIST, is_masked=item.is_masked, item=item.kind)


def _merged(values: SequenceType[Value]) -> Column:
    """One column for values of any of these; a -100 among them masks it."""
    plain = [option for value in values for option in (value.options if isinstance(value, Either) else (value,))]
    # `[-100 if t == pad else t for t in ids]` holds token ids, some of them masked: -100 says nothing about
    # the kind.
    kept = [value for value in plain if not (isinstance(value, Constant) and value.value == IGNORED)]
    is_masked = len(kept) < len(plain)
    if not kept:
        return Column("", Kind.INTEGER, is_masked=True)
    first, *others = [_described(value) for value in kept[:MOST_PARTS]]
    # Different kinds in one list: no rule can say anything about such a column, but its mask is still
    # certain.
    if any(other.kind is not first.kind for other in others):
        return Column("", is_masked=is_masked)
    return replace(first, is_masked=True) if is_masked else first


def masks_some(value: Value) -> bool:
    """Whether a value is, or holds, the label that losses leave out."""
    match value:
        case Constant(value=plain):
            return plain == IGNORED
        case Sequence(items=items):
            return any(masks_some(item) for item in items)
        case _:
            return False


def types_of(value: Value) -> Column:
    """The column that a feature's type describes, given as an object or as an Arrow type's name."""
    match value:
        case Feature(column=column):
            return column
        case Constant(value=str(name)):
            return Column("", kind_of_type(name))
        case Library(path=path) if path.endswith(".Image"):
            return Column("", Kind.IMAGE)
        case _:
            return Column("")
