"""The model called again on a few rows of its first batch: do rows, mask and later tokens matter?"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

from lintrain.evidence.run import FutureEvidence, ResponseEvidence, SpreadEvidence, TargetAlignment
from lintrain.runtime.child.kinds import is_mapping
from lintrain.runtime.child.measured_run import MeasuredRun
from lintrain.runtime.measure.calls import Call, is_whole, without_shells
from lintrain.runtime.measure.future_response import future_evidence, next_token_targets
from lintrain.runtime.measure.mask_response import mask_evidence
from lintrain.runtime.measure.replay import ask, difference, largest
from lintrain.runtime.measure.seen import LossCall
from lintrain.startup.lazy_dataclass import dataclass

MOST_ROWS = 8
MOST_ENTRIES = 2**24
"""Answers of more entries are not kept: fewer rows are asked then (64 MiB in float32)."""
SECONDS = 3.0
"""A model whose answer takes longer is not called again."""


@dataclass(frozen=True, eq=False)
class Tokens:
    """What a loss compares the answers with: its call, and why a look at later tokens would prove nothing."""

    loss: LossCall
    doubt: str


class Responses:
    """The calls before the steps, one of which is repeated after them."""

    def __init__(self, run: MeasuredRun, call: Call, tokens: Tokens | None) -> None:
        self._run = run
        # DDP would start a collective operation that no other process answers.
        self._whole = Call(without_shells(call.module), call.args, call.kwargs)
        self._tokens = tokens
        self._rows = _rows_to_ask(self._whole, run.logits_shape)
        self._call = self._whole.of_rows(self._rows) or self._whole
        if self._call is self._whole:
            self._rows = list(range(self._whole.rows()))
        self.evidence = ResponseEvidence()

    def measure(self) -> None:
        """All calls, before any step."""
        try:
            self._measure()
        except Exception as error:  # noqa: BLE001 - a model may answer in its own loop only
            self._gives_up(f"the model cannot be called again: {type(error).__name__}: {error}")
        self._run.measured(responses=self.evidence)

    def after_steps(self) -> None:
        """Are the outputs of different rows still equal, if they were?"""
        spread = self.evidence.spread
        if spread is None or spread.before is None or spread.before > EQUAL:
            return
        try:
            after = spread_of(ask(self._call))
        except Exception as error:  # noqa: BLE001 - as above
            self._gives_up(f"the model cannot be called after its steps: {type(error).__name__}: {error}")
        else:
            self.evidence = replace(self.evidence, spread=replace(spread, after=after))
        self._run.measured(responses=self.evidence)

    def _measure(self) -> None:
        if not self._rows:
            self._gives_up("the model receives no tensor with rows")
            return
        started = time.perf_counter()
        answers = ask(self._call)
        each = time.perf_counter() - started
        if not answers or not math.isfinite(scale := largest(answers)):
            self._gives_up("the model returns no finite output for each row")
            return
        if each > SECONDS:
            self._run.session.shorten(f"the model was not called again: one call takes {each:.1f} s")
            self._gives_up(f"one call takes {each:.1f} s")
            return
        self.evidence = ResponseEvidence(spread=spread_evidence(self._call, answers))
        self._ask_about_tokens(answers, scale)

    def _ask_about_tokens(self, answers: tuple[Any, ...], scale: float) -> None:
        if self._call.ids is None:
            return
        mask = mask_evidence(self._call, answers, self._mask_beside())
        future = self._future(answers)
        noise = 0.0
        # Nondeterministic kernels change answers as well: the same question twice shows by how much.
        if future is not None and future.change > EQUAL:  # only then it matters whether the same question would do it
            noise = difference(answers, ask(self._call), scale) or 0.0
        self.evidence = replace(self.evidence, noise=noise, mask=mask, future=future)

    def _mask_beside(self) -> Any:
        batch: object = self._run.batches[0] if self._run.batches else None
        mask: Any = batch.get("attention_mask") if is_mapping(batch) else None
        fits = hasattr(mask, "shape") and mask.ndim == 2 and mask.shape[0] == self._whole.rows()
        return mask[self._rows] if fits else None

    def _future(self, answers: tuple[Any, ...]) -> FutureEvidence | None:
        if self._tokens is None:
            return None
        loss, ids = self._tokens.loss, self._whole.tensors()[self._whole.ids or ()]
        ignored = loss.options.get("ignore_index", -100)
        aligned: TargetAlignment | None = next_token_targets(ids, loss.target, ignored) if is_whole(ids) else None
        if aligned is None:
            return None
        scored = loss.target.reshape(ids.shape[0], -1) != ignored
        return future_evidence(self._call, answers, self._rows, aligned, scored, self._tokens.doubt)

    def _gives_up(self, reason: str) -> None:
        self.evidence = replace(self.evidence, reason=reason)


EQUAL = 1e-6
"""Answers that are this near to each other, as a share of the largest, are the same but for rounding."""


def _rows_to_ask(call: Call, shape: tuple[int, ...]) -> list[int]:
    """The first rows and, where a mask is there, the one with the most padding."""
    each = math.prod(shape[1:]) or 1
    most = max(1, min(MOST_ROWS, MOST_ENTRIES // each))
    first = list(range(min(call.rows(), most)))
    if call.mask is None:
        return first
    padded = int((call.tensors()[call.mask] != 0).sum(dim=1).argmin())
    return sorted({padded, *first[: max(1, most - 1)]})


NOT_READ = ("label", "target")


def spread_of(answers: tuple[Any, ...]) -> float:
    """The largest distance of an entry from that of another row, as a share of the largest entry."""
    scale = largest(answers)
    apart = max(float((each.float().amax(dim=0) - each.float().amin(dim=0)).max()) for each in answers)
    return apart / scale if scale else apart


def spread_evidence(call: Call, answers: tuple[Any, ...]) -> SpreadEvidence | None:
    """The spread over the rows of a call; None if no two rows are different."""
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
