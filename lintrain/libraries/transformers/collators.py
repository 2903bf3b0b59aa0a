"""Collators: how they pad, whether they make labels, and the rows that code of the script passes on to them."""

from __future__ import annotations

from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import called, function, stored_item_of
from lintrain.libraries.datasets.rows import note_rows
from lintrain.model.location import Location
from lintrain.pipeline.values.data import CollatedRows, Collator, Step
from lintrain.pipeline.values.python import UNKNOWN, Absent, Constant, Value

PADDING_COLLATORS = (
    "transformers.DataCollatorWithPadding",
    "transformers.DataCollatorForSeq2Seq",
    "transformers.DataCollatorForTokenClassification",
    "transformers.DataCollatorForMultipleChoice",
)
LANGUAGE_MODELS = (
    "transformers.DataCollatorForLanguageModeling",
    "transformers.DataCollatorForWholeWordMask",
    "transformers.DataCollatorForPermutationLanguageModeling",
)
FLATTENING = "transformers.DataCollatorWithFlattening"


@function(*PADDING_COLLATORS)
def _padding(call: Call) -> Value:
    """Pads token columns; with `padding=False` it does not, with an unknown one that is open."""
    padding = call.value("padding")
    pads = True if isinstance(padding, Absent) else _is_on(padding)
    return _made(call, pads=pads, makes_labels=False)


def _is_on(padding: Value) -> bool | None:
    if not isinstance(padding, Constant) or padding.default:
        return None
    return padding.value not in {False, "do_not_pad", None}


@function(*LANGUAGE_MODELS)
def _language_modeling(call: Call) -> Value:
    """Pads, and makes the labels of its tokens."""
    return _made(call, pads=True, makes_labels=True, parameters=("tokenizer", "mlm"))


@function(FLATTENING)
def _flattening(call: Call) -> Value:
    """Puts all rows into one: nothing is left to pad."""
    # Counts as padding: rules ask whether rows of unequal length fit into a batch, and here they do.
    return _made(call, pads=True, makes_labels=True)


@called(Collator)
def _collate(call: Call) -> Value:
    """`collator(rows)`, in a collate function of the script."""
    if not isinstance(call.receiver, Collator):
        return UNKNOWN
    row = dispatch.element(call.reader, call.value("features", 0))
    made = CollatedRows(name="batch", collator=call.receiver, row=row, origin=call.location)
    note_rows(call.reader, made, row, Step("collate", call.location, call.text))
    return made


@stored_item_of(CollatedRows)
def _change(reader: Reader, owner: Value, key: Value, value: Value, location: Location) -> None:
    if isinstance(owner, CollatedRows):
        owner.is_changed = True


@function("transformers.DefaultDataCollator")
def _default(call: Call) -> Value:
    return _made(call, pads=False, makes_labels=False)


def _made(
    call: Call, *, pads: bool | None, makes_labels: bool, parameters: tuple[str, ...] = ("tokenizer",)
) -> Collator:
    arguments = call.values(*parameters)
    tokenizer = arguments.get("tokenizer", arguments.get("processing_class", Absent()))
    if call.is_open:
        arguments.setdefault("**", UNKNOWN)
    made = Collator(call.path, arguments, tokenizer, pads, makes_labels=makes_labels, origin=call.location)
    call.reader.record.collators.append(made)
    return made
