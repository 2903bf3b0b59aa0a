"""Whether the attention mask matters: padding attended, and padding cut off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lintrain.evidence.run import MaskEvidence
from lintrain.runtime.measure.calls import Call, parameters_of
from lintrain.runtime.measure.replay import ask, difference, largest


def mask_evidence(call: Call, answers: tuple[Any, ...], beside: Any) -> MaskEvidence | None:
    """Measured where rows have padding; `beside` is the batch's mask where the model did not get it."""
    mask, path = _mask_of(call, beside), call.mask
    # Not measured if a row has no attended token: its softmax is over nothing, and NaN with some kernels.
    if mask is None or bool((mask != 0).all()) or not bool((mask != 0).any(dim=1).all()):
        return None
    ones: Mapping[Any, Any] = {path: mask.new_ones(mask.shape)} if path is not None else {}
    other = ask(call.changed(ones) if path is not None else call.given("attention_mask", mask))
    has_padding = (mask == 0).any(dim=1)
    scale = largest(answers)
    change = difference(_attended(answers, mask, has_padding), _attended(other, mask, has_padding), scale)
    if change is None:
        return None
    # The row with the most padding shows the largest change.
    row = int((mask != 0).sum(dim=1).argmin())
    cut = _cut(call, answers, mask, row, scale)
    return MaskEvidence(
        given=path is not None,
        rows=int(has_padding.sum()),
        padding=int((mask == 0).sum()),
        change=change,
        cut=cut,
        cut_tokens=int((mask[row] == 0).sum()) if cut is not None else 0,
    )


def _mask_of(call: Call, beside: Any) -> Any:
    tensors, ids, path = call.tensors(), call.ids, call.mask
    if ids is None:
        return None
    if path is not None:
        return tensors[path]
    fits = hasattr(beside, "shape") and beside.shape == tensors[ids].shape
    return beside if fits and "attention_mask" in parameters_of(call.module) else None


def _attended(answers: tuple[Any, ...], mask: Any, rows: Any) -> tuple[Any, ...]:
    """The answers of some rows; of those that are given for each token, the ones that are attended."""
    chosen = rows[:, None] & (mask != 0)
    return tuple(answer[chosen] if answer.shape[:2] == mask.shape else answer[rows] for answer in answers)


def _cut(call: Call, answers: tuple[Any, ...], mask: Any, row: int, scale: float) -> float | None:
    """The change of one row that is asked without the padding on its right."""
    kept = int((mask[row] != 0).sum())
    alone = call.of_rows([row])
    if alone is None or not bool((mask[row, :kept] != 0).all()):
        return None
    width = int(mask.shape[1])
    shorter = {
        path: tensor[:, :kept]
        for path, tensor in alone.tensors().items()
        if tensor.ndim > 1 and tensor.shape[1] == width
    }
    try:
        given = ask(alone.changed(shorter))
    except Exception:  # noqa: BLE001 - a model that takes one length only cannot be asked so
        return None
    of_row = tuple(answer[row : row + 1] for answer in answers)
    expected = tuple(answer[:, :kept] if answer.shape[1:2] == (width,) else answer for answer in of_row)
    return difference(expected, given, scale)
