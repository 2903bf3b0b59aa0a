"""A Keras model on TensorFlow called again on a few rows of its first batch: do rows and mask matter?"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from lintrain.evidence.run import MaskEvidence, ResponseEvidence, SpreadEvidence
from lintrain.runtime.child.library import attribute, has, is_mapping, is_row, library
from lintrain.runtime.frameworks.tensorflow.tensorflow_run import TensorFlowRun, array_of, leaves, numbers_of
from lintrain.runtime.measure.responses import EQUAL, MOST_ROWS, SECONDS

LABELS = ("labels", "label", "targets")
"""Inputs that represent targets: models of transformers accept them with the others."""


class TensorFlowResponses:
    """The calls before the steps, one of which is repeated after them."""

    def __init__(self, run: TensorFlowRun) -> None:
        self._run = run
        self._inputs: Any = None
        self.evidence = ResponseEvidence()

    def measure(self) -> None:
        """All calls, before any step."""
        try:
            self.evidence = self._measured()
        except Exception as error:  # noqa: BLE001 - a model may answer in its own loop only
            self._gives_up(f"the model cannot be called again: {type(error).__name__}: {error}")
        self._run.measured(responses=self.evidence)

    def after_steps(self) -> None:
        """Are the outputs of different rows still equal, if they were?"""
        spread = self.evidence.spread
        if spread is None or spread.before is None or spread.before > EQUAL:
            return
        try:
            after = _spread(self._ask(self._inputs))
        except Exception as error:  # noqa: BLE001 - as above
            self._gives_up(f"the model cannot be called after its steps: {type(error).__name__}: {error}")
        else:
            self.evidence = replace(self.evidence, spread=replace(spread, after=after))
        self._run.measured(responses=self.evidence)

    def _measured(self) -> ResponseEvidence:
        self._inputs = _few_rows(_without_labels(self._run.parts(self._run.batches[0])[0]))
        started = time.perf_counter()
        answers = self._ask(self._inputs)
        seconds = time.perf_counter() - started
        if answers is None or not bool(library("numpy").isfinite(answers).all()):
            return ResponseEvidence(reason="the model returns no finite output for each row")
        different = _different_rows(self._inputs)
        spread = SpreadEvidence(different, answers.dtype.name, _spread(answers)) if different > 1 else None
        if seconds > SECONDS:
            return ResponseEvidence(spread=spread, reason=f"one call takes {seconds:.1f} s")
        return ResponseEvidence(spread=spread, mask=self._mask(answers))

    def _ask(self, inputs: Any) -> Any:
        """An array with an entry for each row, the logits where there are any; None for another form."""
        output = self._run.keras(inputs, training=False)
        logits = output.get("logits") if is_mapping(output) else output
        values = numbers_of(logits) if has(logits, "shape") else None
        return values if values is not None and values.ndim and len(values) == _rows(inputs) else None

    def _mask(self, answers: Any) -> MaskEvidence | None:
        """Rows with padding, asked with their padding attended, and the one with the most of it without it."""
        given = self._inputs.get("attention_mask") if is_mapping(self._inputs) else None
        mask = array_of(given)
        if mask is None or mask.ndim != 2 or (mask != 0).all() or not (mask != 0).any(axis=1).all():
            return None
        other = self._ask({**self._inputs, "attention_mask": library("tensorflow").ones_like(given)})
        if other is None or other.shape != answers.shape:
            return None
        attended = (mask != 0) & (mask == 0).any(axis=1)[:, None]
        locations = attended if answers.shape[:2] == mask.shape else attended.any(axis=1)
        row = int((mask != 0).sum(axis=1).argmin())
        cut = self._cut(answers, mask, row)
        return MaskEvidence(
            given=True,
            rows=int((mask == 0).any(axis=1).sum()),
            padding=int((mask == 0).sum()),
            change=_difference(answers[locations], other[locations], _largest(answers)),
            cut=cut,
            cut_tokens=int((mask[row] == 0).sum()) if cut is not None else 0,
        )

    def _cut(self, answers: Any, mask: Any, row: int) -> float | None:
        width, kept = int(mask.shape[1]), int((mask[row] != 0).sum())
        if not (mask[row, :kept] != 0).all():
            return None
        alone = {name: value[row : row + 1] for name, value in self._inputs.items()}
        shorter = {name: v[:, :kept] if v.shape.rank > 1 and v.shape[1] == width else v for name, v in alone.items()}
        try:
            given = self._ask(shorter)
        except Exception:  # noqa: BLE001 - a model that takes one length only cannot be asked so
            return None
        expected = answers[row : row + 1]
        expected = expected[:, :kept] if expected.shape[1:2] == (width,) else expected
        return (
            _difference(expected, given, _largest(answers))
            if attribute(given, "shape", None) == expected.shape
            else None
        )

    def _gives_up(self, reason: str) -> None:
        self.evidence = replace(self.evidence, reason=reason)


def _without_labels(inputs: Any) -> Any:
    return {name: v for name, v in inputs.items() if name not in LABELS} if is_mapping(inputs) else inputs


def _few_rows(inputs: Any) -> Any:
    """The first rows and, where a mask is there, the one with the most padding."""
    rows = list(range(min(_rows(inputs), MOST_ROWS)))
    mask = array_of(inputs.get("attention_mask")) if is_mapping(inputs) else None
    if mask is not None and mask.ndim == 2:
        padded = int((mask != 0).sum(axis=1).argmin())
        rows = sorted({padded, *rows[: MOST_ROWS - 1]})
    return _taken(inputs, rows)


def _taken(value: Any, rows: list[int]) -> Any:
    if is_mapping(value):
        return {name: _taken(part, rows) for name, part in value.items()}
    if is_row(value):
        return type(value)(_taken(part, rows) for part in value)
    return library("tensorflow").gather(value, rows)


def _rows(inputs: Any) -> int:
    return min(int(leaf.shape[0]) for leaf in leaves(inputs))


def _different_rows(inputs: Any) -> int:
    """So many rows differ in something that the model reads."""
    numpy, counts = library("numpy"), [0]
    for leaf in leaves(inputs):
        values = array_of(leaf)
        if values is not None and values.ndim and values.dtype.kind in "biuf":
            counts.append(len(numpy.unique(values.reshape(len(values), -1), axis=0)))
    return max(counts)


def _spread(answers: Any) -> float:
    """The largest distance of an entry from that of another row, as a share of the largest entry."""
    apart = float((answers.max(axis=0) - answers.min(axis=0)).max())
    return apart / (_largest(answers) or 1.0)


def _largest(answers: Any) -> float:
    return float(abs(answers).max())


def _difference(before: Any, after: Any, scale: float) -> float:
    return float(abs(before - after).max()) / (scale or 1.0)
