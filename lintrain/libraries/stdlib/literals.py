"""The methods of lists, dictionaries and strings, and text that code puts together."""

from __future__ import annotations

import posixpath

from lintrain.interpreter.core import operations, storing
from lintrain.interpreter.core.arithmetic import LONGEST
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import attribute_of, function, method, operated
from lintrain.interpreter.retention import note_append
from lintrain.libraries.stdlib.containers import any_entry
from lintrain.model.location import Location
from lintrain.pipeline.record import TokenTest
from lintrain.pipeline.values.data import ColumnValues
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Absent,
    Bound,
    Constant,
    LibraryObject,
    Literal,
    Mapping,
    Sequence,
    Value,
    constant,
    first_default,
    join,
)
from lintrain.pipeline.values.tensors import SpecialToken, Templated, Text, Whole

MOST_ITEMS = 64
"""A list up to this length is known item by item."""


@method(Sequence, "append")
def _append(call: Call) -> Value:
    # Before the list changes, to record whether the loop assigned it again.
    note_append(call.reader, call.node, call.value("object", 0), call.reader.frame.scope)
    operations.extend(call.reader, call.receiver, [call.value("object", 0)])
    return Constant(None)


@method(Sequence, "extend")
def _extend_with(call: Call) -> Value:
    given = call.value("iterable", 0)
    items = operations.known_items(given, MOST_ITEMS)
    added = operations.literal_items(given) if items is None else items
    operations.extend(call.reader, call.receiver, added, is_known=items is not None)
    return Constant(None)


@method(
    *(Sequence, "pop", "remove", "insert", "clear", "add", "update", "discard", "difference_update"),
    *("intersection_update", "symmetric_difference_update"),
)
def _changed(call: Call) -> Value:
    receiver = call.receiver
    if isinstance(receiver, Sequence):
        takes_away = call.path.rpartition(".")[2] in {"pop", "remove", "clear", "discard", "difference_update"}
        receiver.is_closed = receiver.knows_items and takes_away
        receiver.is_complete = False
    return UNKNOWN


@method(Sequence, "index", "count")
def _number(call: Call) -> Value:
    """The position of an item, or how often it occurs."""
    return Whole(origin=call.location)


@method(Sequence, "copy")
def _copied(call: Call) -> Value:
    receiver = call.receiver
    return (
        Sequence([*call.reader.counted(receiver.items)], receiver.kind, receiver.is_complete)
        if isinstance(receiver, Sequence)
        else UNKNOWN
    )


@method(Mapping, "get", "pop", "setdefault")
def _get(call: Call) -> Value:
    receiver, key = call.receiver, call.value("key", 0)
    name = call.path.rpartition(".")[2]
    if not isinstance(receiver, Mapping):
        return UNKNOWN
    if not isinstance(key, Constant):
        # `pop` and `setdefault` with an unknown key change some entry. `get` changes none.
        found = any_entry(call.reader, receiver) if name == "get" else UNKNOWN
        receiver.is_complete = receiver.is_complete and name == "get"
        return join([found, call.value("default", 1)]) if len(call.positional) > 1 else found
    if key.value in receiver.entries:
        return _take(call, receiver, key) if name == "pop" else receiver.entries[key.value]
    default = call.value("default", 1)
    found = Constant(None) if isinstance(default, Absent) else default
    if name == "setdefault" and receiver.is_complete:
        receiver.entries[key.value] = found
    return found if receiver.is_complete else UNKNOWN


def _take(call: Call, receiver: Mapping, key: Constant) -> Value:
    """`pop`: gone afterwards, or perhaps there, where the call may be skipped."""
    # Removed in either case: rules ask for what is certainly there, and an incomplete dictionary proves
    # nothing missing.
    receiver.is_complete = receiver.is_complete and not call.reader.conditions
    return receiver.entries.pop(key.value)


@method(Mapping, "update")
def _update(call: Call) -> Value:
    receiver = call.receiver
    if isinstance(receiver, Mapping):
        before = frozenset(receiver.entries)
        for argument in call.positional:
            is_known = operations.update(call.reader, receiver.entries, argument.value)
            # Once something unknown was added, no key is certainly missing, whatever comes later.
            receiver.is_complete = is_known and receiver.is_complete
            receiver.others = receiver.others if is_known else None
        named = {name: argument.value for name, argument in call.keywords.items() if name != "**"}
        receiver.entries.update(named)
        keys: dict[Literal, None] = dict.fromkeys(named)
        for argument in call.positional:
            keys.update(dict.fromkeys(argument.value.entries if isinstance(argument.value, Mapping) else ()))
        for key in keys:
            storing.note_side(call.reader, receiver, key, is_new=key not in before)
        receiver.is_complete = receiver.is_complete and not call.is_open and "**" not in call.keywords
    return Constant(None)


@method(Mapping, "copy")
def _copy(call: Call) -> Value:
    receiver = call.receiver
    if not isinstance(receiver, Mapping):
        return UNKNOWN
    return Mapping(dict(call.reader.counted(receiver.entries)), receiver.is_complete)


@attribute_of(Constant)
def _constant_attribute(reader: Reader, value: Value, name: str, location: Location) -> Value | None:
    if name == "value":
        return value  # a literal has no such attribute: it is the member of an Enum
    return Bound(value, name) if isinstance(value, Constant) and isinstance(value.value, str) else UNKNOWN


@method(Constant, "lower", "upper", "strip", "replace", "split", "rsplit", "format", "startswith", "endswith")
def _string_method(call: Call) -> Value:
    receiver = call.receiver
    given = [*call.positional, *call.keywords.values()]
    if isinstance(receiver, Constant) and given and call.path.endswith(".format"):
        parts = (receiver, *(argument.value for argument in given))
        return operations.text_of_parts(call.reader, parts, call.location)
    if not isinstance(receiver, Constant) or not isinstance(receiver.value, str) or len(receiver.value) > LONGEST:
        return UNKNOWN
    if given:
        return _changed_by(call, receiver, receiver.value)
    match call.path.rpartition(".")[2]:
        case "lower":
            return constant(receiver.value.lower(), receiver.default)
        case "upper":
            return constant(receiver.value.upper(), receiver.default)
        case "strip":
            return constant(receiver.value.strip(), receiver.default)
        case _:
            return UNKNOWN


def _changed_by(call: Call, receiver: Constant, text: str) -> Value:
    """What a method with literal arguments returns."""
    known = [each.value for each in call.positional if isinstance(each.value, Constant)]
    texts = [each.value for each in known if isinstance(each.value, str) and len(each.value) <= MOST_ITEMS]
    if len(texts) != len(call.positional) or call.keywords or call.is_open:
        return UNKNOWN
    default = first_default(receiver, *known)
    match call.path.rpartition(".")[2], texts:
        case "replace", [old, new]:
            return constant(text.replace(old, new), default)
        case "split" | "rsplit", [mark] if mark:
            return Sequence([constant(part, default) for part in text.split(mark)])
        case "strip", [characters]:
            return constant(text.strip(characters), default)
        case "startswith", [start]:
            return constant(text.startswith(start), default)
        case "endswith", [end]:
            return constant(text.endswith(end), default)
        case _:
            return UNKNOWN


@function("os.path.join")
def _path(call: Call) -> Value:
    parts = [each.value for each in call.positional if isinstance(each.value, Constant)]
    texts = [each.value for each in parts if isinstance(each.value, str)]
    if not texts or len(texts) != len(call.positional) or call.is_open or sum(map(len, texts)) > LONGEST:
        return LibraryObject(call.path, call.values(), origin=call.location)
    return constant(posixpath.join(*texts), first_default(*parts), call.location)


@operated(Text)
@operated(Templated)
def _put_together(reader: Reader, left: Value, operator: str, right: Value, location: Location) -> Value | None:
    if operator != "Add" or isinstance(left, ColumnValues) or isinstance(right, ColumnValues):
        return None
    return operations.text_of_parts(reader, (left, right), location)


@operated(SpecialToken)
def _with_token(reader: Reader, left: Value, operator: str, right: Value, location: Location) -> Value | None:
    """A token put into text, or compared with ids."""
    for side in (left, right):
        if isinstance(side, SpecialToken) and operator in {"Eq", "NotEq"}:
            # `labels == tokenizer.pad_token_id` is a test of tokens, and rules ask whether padding is
            # masked with it.
            reader.record.token_tests.append(TokenTest(side, location))
            return None
    tokens = [side for side in (left, right) if isinstance(side, SpecialToken)]
    # Ids are numbers, so adding two of them makes no text.
    if operator != "Add" or all(token.name.endswith("_id") for token in tokens):
        return None
    return None if isinstance(right, ColumnValues) else operations.text_of_parts(reader, (left, right), location)


@operated(Constant)
def _literal_with(reader: Reader, left: Value, operator: str, right: Value, location: Location) -> Value | None:
    """`"### " + something`, `"%s" % something`: text whatever the other is."""
    if not isinstance(left, Constant) or not isinstance(left.value, str) or operator not in {"Add", "Mod"}:
        return None
    return None if isinstance(right, ColumnValues) else operations.text_of_parts(reader, (left, right), location)


@method(Text, "strip", "lstrip", "rstrip", "replace", "lower", "upper", "format")
@method(Templated, "strip", "lstrip", "rstrip", "replace", "lower", "upper")
def _changed_texts(call: Call) -> Value:
    """Another text, taken to be made of the same parts."""
    given = tuple(argument.value for argument in call.positional)
    if given and call.path.rpartition(".")[2] in {"strip", "lstrip", "replace"}:
        given = (*given, call.receiver)  # its beginning may have gone
        return operations.text_of_parts(call.reader, (UNKNOWN, *given), call.location)
    return operations.text_of_parts(call.reader, (call.receiver, *given), call.location)


@method(Constant, "join")
def _joined(call: Call) -> Value:
    """`"\\n".join(texts)`."""
    texts = call.value("iterable", 0)
    items = texts.items if isinstance(texts, Sequence) else [texts]
    return operations.text_of_parts(call.reader, (call.receiver, *items), call.location)


@operated(Sequence)
def _listed_with(reader: Reader, left: Value, operator: str, right: Value, location: Location) -> Value | None:
    """`ids + [tokenizer.eos_token_id]`: a token put into rows of ids."""
    for side, other in ((left, right), (right, left)):
        held = side.items if isinstance(side, Sequence) and not isinstance(other, ColumnValues) else []
        if operator == "Add" and any(isinstance(item, SpecialToken) for item in held):
            operations.text_of_parts(reader, (other, *held), location)
    return None
