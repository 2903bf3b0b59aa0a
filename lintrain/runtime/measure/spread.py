"""How far a model's answers to different rows lie apart."""

from __future__ import annotations

from typing import Any

from lintrain.evidence.run import SpreadEvidence
from lintrain.runtime.measure.calls import Call
from lintrain.runtime.measure.replay import largest

NOT_READ = ("label", "target")


def spread_of(answers: tuple[Any, ...]) -> float:
    """The largest distance of an entry from that of another row, as a share of the largest entry."""
    scale = largest(answers)
    apart = max(float((each.float().amax(dim=0) - each.float().amin(dim=0)).max()) for each in answers)
    return apart / scale if scale else apart


def spread_evidence(call: Call, answers: tuple[Any, ...]) -> SpreadEvidence | None:
    """The spread over the rows of a call; None where no two rows are different."""
    different = _different_rows(call)
    if different < 2 or not answers:
        return None
    dtype = str(answers[0].dtype).removeprefix("torch.")
    return SpreadEvidence(rows=different, dtype=dtype, before=spread_of(answers))


def _different_rows(call: Call) -> int:
    """So many rows differ in something that the model reads; labels are none of that."""
    rows, counts = call.rows(), [0]
    for path, tensor in call.tensors().items():
        is_label = any(word in call.name_of(path).lower() for word in NOT_READ)
        if tensor.ndim and tensor.shape[0] == rows and not is_label:
            counts.append(int(tensor.reshape(rows, -1).unique(dim=0).shape[0]))
    return max(counts)
