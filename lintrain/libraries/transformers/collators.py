"""Collators of transformers: what they do to rows on the way into a batch."""

from __future__ import annotations

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.registry import function
from lintrain.pipeline.values.data import Collator
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
    if not isinstance(padding, Constant) or padding.is_default:
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
