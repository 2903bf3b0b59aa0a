"""What tells causes apart where one call of torch gets shapes, indices, labels or dtypes that do not fit."""

from __future__ import annotations

import re
from math import prod

from lintrain.evidence.stages import GivenValue
from lintrain.verdicts.endings.kinds import Answer, Raised
from lintrain.verdicts.endings.script_conditions import in_keras, written_values

LOSSES = ("cross_entropy", "nll_loss")

USUAL_POSITIONS = frozenset({128, 256, 512, 514, 1024, 1026, 2048, 4096, 4098, 8192})
"""How many positions models of text have; those of RoBERTa, BART and Longformer count two more."""


def _ids_and_rows(raised: Raised) -> tuple[GivenValue, int] | None:
    ids, weight = raised.value("input", "embedding"), raised.value("weight", "embedding")
    if ids is None or weight is None or ids.highest is None or not weight.shape:
        return None
    return ids, weight.shape[0]


def _table(ids: GivenValue, raised: Raised) -> str:
    """What the embedding is for: the line of transformers that calls it names it, and positions count up from 0."""
    lines = " ".join(frame for frame in raised.failure.frames if frame.startswith("transformers")).lower()
    shape = ids.shape or (0,)
    is_counted = ids.lowest == 0 and ids.highest == shape[-1] - 1 and prod(shape) == shape[-1]
    named = next((kind for kind in ("token_type", "position") if kind in lines), "")
    return named or ("position" if is_counted else "")


def _beyond(raised: Raised, table: str) -> Answer:
    found = _ids_and_rows(raised)
    if found is None:
        return None
    ids, rows = found
    if ids.lowest is None or ids.highest is None or ids.lowest < 0 or ids.highest < rows:
        return False
    if _table(ids, raised) != table:
        return False
    return f"the ids go up to {ids.highest:.0f}, and the embedding has {rows} rows"


def id_beyond(raised: Raised) -> Answer:
    """Token ids beyond the embedding."""
    return _beyond(raised, "")


def position_beyond(raised: Raised) -> Answer:
    """Positions beyond their table."""
    return _beyond(raised, "position")


def token_type_beyond(raised: Raised) -> Answer:
    """Token types beyond their table."""
    return _beyond(raised, "token_type")


def negative_id(raised: Raised) -> Answer:
    """Ids below zero."""
    found = _ids_and_rows(raised)
    if found is None or found[0].lowest is None:
        return None
    return found[0].lowest < 0 and f"the lowest id is {found[0].lowest:.0f}"


def labels_of(raised: Raised) -> tuple[GivenValue, int] | None:
    """The labels and the number of classes of a loss."""
    for function in LOSSES:
        scores, labels = raised.value("input", function), raised.value("target", function)
        if scores is not None and labels is not None and scores.shape and labels.lowest is not None:
            return labels, scores.shape[1 if len(scores.shape) > 1 else 0]
    return None


def label_beyond(raised: Raised) -> Answer:
    """A label that is not below the number of outputs, though the labels start at 0."""
    found = labels_of(raised)
    if raised.number("label") < 0 or in_keras(raised):
        return False
    if found is None:
        return None
    labels, classes = found
    if labels.lowest == 1 and labels.highest == classes:
        return False
    return f"{raised.called(labels)} holds {labels.lowest:.0f} to {labels.highest:.0f}, and there are {classes} outputs"


def labels_from_one(raised: Raised) -> Answer:
    """Labels 1 to n for n outputs."""
    found = labels_of(raised)
    if raised.number("label") < 0:
        return False
    if found is None:
        return None
    labels, classes = found
    is_cause = labels.lowest == 1 and labels.highest == classes
    return is_cause and f"{raised.called(labels)} holds 1 to {classes}, and there are {classes} outputs"


def negative_label(raised: Raised) -> Answer:
    """A label below zero that is not ignored."""
    return raised.number("label") < 0


def _layer(raised: Raised) -> tuple[GivenValue, GivenValue] | None:
    """The input of a linear layer and the layer."""
    given, layer = raised.value("input", "forward"), raised.value("self", "forward")
    return (given, layer) if given is not None and layer is not None and layer.type == "Linear" else None


def _failing_layer(raised: Raised) -> GivenValue | None:
    """The layer of torch whose `forward` fails."""
    found = raised.value("self", "forward")
    return found if found is not None and found.function.startswith("torch.nn.modules.") else None


def weight_of_another_shape(raised: Raised) -> Answer:
    """A linear layer whose weight was replaced."""
    layer = _failing_layer(raised)
    return layer is not None and ", weight [" in layer.text and f"the layer is {layer.summary}"


def weights_of_two_types(raised: Raised) -> Answer:
    """A layer whose weights have several dtypes."""
    layer = _failing_layer(raised)
    return layer is not None and " and " in layer.dtype and f"{layer.type} has weights of {layer.dtype}"


def is_linear(raised: Raised) -> Answer:
    """A linear layer gets rows of another size."""
    found = _layer(raised)
    if found is None:
        return False if raised.was_measured else None
    given, layer = found
    shape, expected = given.shape or (), raised.number("third")
    if len(shape) > 2 and prod(shape[1:]) == expected:
        return False
    return f"the input is {given.summary}, the layer {layer.summary}"


def is_unflattened(raised: Raised) -> Answer:
    """A linear layer would fit if each row of the input were flattened."""
    found = _layer(raised)
    if found is None:
        return False if raised.was_measured else None
    shape, expected = found[0].shape or (), raised.number("third")
    return (
        len(shape) > 2 and prod(shape[1:]) == expected and f"the input is {list(shape)}, and the layer takes {expected}"
    )


def is_transposed(raised: Raised) -> Answer:
    """A product whose second factor would fit if it were transposed."""
    if _layer(raised) is not None:
        return False
    return raised.number("second") == raised.number("fourth")


def is_other_product(raised: Raised) -> Answer:
    """A product that does not fit either way."""
    return _layer(raised) is None and raised.number("second") != raised.number("fourth")


def is_channels_last(raised: Raised) -> Answer:
    """Images with their channels in the last dimension."""
    sizes = [int(size) for size in raised.groups["shape"].split(",")]
    return len(sizes) > 2 and sizes[-1] == raised.number("expected")


def has_channels_first(raised: Raised) -> Answer:
    """Images whose channels are where they belong, but are too many or too few."""
    return not is_channels_last(raised)


def _loss_shapes(raised: Raised) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    for function in LOSSES:
        scores, labels = raised.value("input", function), raised.value("target", function)
        if scores is not None and labels is not None and scores.shape is not None and labels.shape is not None:
            return scores.shape, labels.shape
    return None


def are_labels_unflattened(raised: Raised) -> Answer:
    """Logits of all tokens in one dimension, labels still in two."""
    shapes = _loss_shapes(raised)
    if shapes is None:
        return None
    scores, labels = shapes
    return len(labels) > 1 and prod(labels) == scores[0] and f"logits are {list(scores)}, labels {list(labels)}"


def are_rows_different(raised: Raised) -> Answer:
    """As many logits as labels are needed, and there are not."""
    shapes = _loss_shapes(raised)
    if shapes is None:
        return None
    scores, labels = shapes
    return prod(labels) != scores[0] and f"logits are {list(scores)}, labels {list(labels)}"


def _of_input(raised: Raised, function: str) -> GivenValue | None:
    found = raised.value("input", function)
    return found if found is not None and (found.lowest is not None or found.is_finite is not None) else None


def are_logits(raised: Raised) -> Answer:
    """Finite values outside of 0 to 1."""
    found = _of_input(raised, "binary_cross_entropy")
    return (
        None
        if found is None
        else bool(found.is_finite) and f"the input goes from {found.lowest:g} to {found.highest:g}"
    )


def are_not_finite(raised: Raised) -> Answer:
    """NaN or infinity among the values."""
    found = _of_input(raised, "binary_cross_entropy")
    return None if found is None else found.is_finite is False


def not_in_keras(raised: Raised) -> Answer:
    """The user's own code, not a loss of Keras."""
    return "keras." not in raised.failure.raised_in and written_values(raised)


def positions_added(raised: Raised) -> Answer:
    """A table of positions is added to an input with more tokens."""
    sizes = raised.number("one"), raised.number("other")
    if not raised.was_measured and not raised.failure.raised_in:
        return None if min(sizes) in USUAL_POSITIONS else False
    if "transformers.models" in raised.failure.raised_in:
        return "position" in " ".join(raised.failure.frames[-1:]).lower()
    table = next((each for each in raised.written_as("tensor") if _is_of_positions(each, min(sizes))), None)
    return table is not None and f"`{table.name}` is {table.summary}"


def _is_of_positions(value: GivenValue, rows: int) -> bool:
    words = re.split(r"[^a-z]+", value.name.lower())
    return rows in (value.shape or ()) and any(word == "pe" or word.startswith("pos") for word in words)


def other_sizes(raised: Raised) -> Answer:
    """Sizes that do not fit in the user's own code; a traceback alone does not tell why."""
    if not raised.was_measured and not raised.failure.raised_in:
        return None
    return not positions_added(raised) and not_in_keras(raised)


def not_in_a_loss(raised: Raised) -> Answer:
    """No loss function of torch raises it, as far as the frames are known."""
    if not raised.failure.raised_in and not raised.failure.code:
        return None
    return "binary_cross_entropy" not in raised.failure.raised_in and written_values(raised)


def not_in_a_library(raised: Raised) -> Answer:
    """The user's own code, not a model of transformers."""
    return "transformers." not in raised.failure.raised_in and written_values(raised)


def not_within_a_library(raised: Raised) -> Answer:
    """The script may have called it: a function inside of a library's function gets its arguments from that one."""
    return not (raised.failure.raised_in and "<locals>" in raised.failure.message)


def not_in_a_collator(raised: Raised) -> Answer:
    """Rows that no collator of transformers collates."""
    return "data_collator" not in raised.failure.raised_in


def probabilities_not_finite(raised: Raised) -> Answer:
    """NaN or infinity among the probabilities to sample from."""
    return _probabilities(raised, is_finite=False)


def probabilities_negative(raised: Raised) -> Answer:
    """Finite values to sample from: some of them are negative."""
    return _probabilities(raised, is_finite=True)


def _probabilities(raised: Raised, *, is_finite: bool) -> Answer:
    found = next((value for value in raised.written if value.is_finite is not None), None)
    return None if found is None else found.is_finite is is_finite
