"""Text that code puts together, and comparisons with special tokens."""

from __future__ import annotations

from lintrain.interpreter.core import operations
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import method, operated
from lintrain.model.location import Location
from lintrain.pipeline.record import TokenTest
from lintrain.pipeline.values.data import ColumnValues
from lintrain.pipeline.values.python import UNKNOWN, Constant, Sequence, Value
from lintrain.pipeline.values.tokens import SpecialToken, Templated, Text


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
def _changed(call: Call) -> Value:
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
