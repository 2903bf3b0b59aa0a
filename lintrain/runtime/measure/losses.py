"""The arguments of a loss function: shapes, ranges, and whether the inputs are probabilities already."""

from __future__ import annotations

from typing import Any

from lintrain.evidence.run import LossEvidence, TargetAlignment
from lintrain.runtime.child.library import library
from lintrain.runtime.measure.alignment import alignment
from lintrain.runtime.measure.seen import LossCall

OVER_CLASSES = frozenset({"cross_entropy", "nll_loss", "kl_div"})
IGNORED = -100


def loss_evidence(call: LossCall) -> LossEvidence:
    """One call, described."""
    name, given, target, options, result = call.name, call.input, call.target, call.options, call.result
    return LossEvidence(
        function=name,
        input_shape=tuple(given.shape),
        input_dtype=_dtype(given),
        input_minimum=_edge(given, "min"),
        input_maximum=_edge(given, "max"),
        target_shape=tuple(target.shape),
        target_dtype=_dtype(target),
        target_minimum=_edge(target, "min"),
        target_maximum=_edge(target, "max"),
        value=float(result.detach().float().mean()) if hasattr(result, "detach") else None,
        sums_of_inputs=_sums(name, given, exponential=False),
        sums_of_exponentials=_sums(name, given, exponential=True),
        ignored=_ignored(name, target, options),
        is_plain=options.get("weight") is None and not options.get("label_smoothing"),
        alignment=_alignment(call),
        location=call.location,
    )


def _alignment(call: LossCall) -> TargetAlignment | None:
    if call.name not in ("cross_entropy", "nll_loss") or call.ids is None:
        return None
    return alignment(call.target, call.ids, call.mask, call.options.get("ignore_index", IGNORED))


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _edge(tensor: Any, which: str) -> float | None:
    numbers = tensor.detach().float()
    numbers = numbers[library("torch").isfinite(numbers)]
    return float(getattr(numbers, which)()) if numbers.numel() else None


def _sums(name: str, given: Any, *, exponential: bool) -> tuple[float, float] | None:
    """The least and the greatest sum over the classes, which are the second axis, the only one of a single row."""
    if name not in OVER_CLASSES or not given.ndim or not given.numel():
        return None
    numbers = given.detach().float()
    axis = 1 if numbers.ndim > 1 else 0
    sums = (numbers.exp() if exponential else numbers).sum(dim=axis)
    return float(sums.min()), float(sums.max())


def _ignored(name: str, target: Any, options: dict[str, Any]) -> float | None:
    if name not in ("cross_entropy", "nll_loss") or target.is_floating_point() or not target.numel():
        return None
    return float((target == options.get("ignore_index", IGNORED)).float().mean())
