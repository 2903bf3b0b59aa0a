"""Losses over sequences: the targets of CTC loss."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from lintrain.evidence.sequences import CtcTargets
from lintrain.runtime.child.library import attribute, library
from lintrain.runtime.measure.seen import LossCall

OPTIONS = ("input_lengths", "target_lengths", "blank", "reduction", "zero_infinity")
"""The parameters of `ctc_loss` after the first two, in order."""


def ctc_targets(call: LossCall) -> CtcTargets | None:
    """The targets of a call of CTC loss; None for another loss, and for lengths that do not fit."""
    if call.name != "ctc_loss" or call.target.is_floating_point():
        return None
    given = {**dict(zip(OPTIONS, call.rest, strict=False)), **call.options}
    lengths, blank = _numbers(given.get("target_lengths")), given.get("blank", 0)
    # Padding beyond the lengths may be the blank, and often is: torch does not read it.
    rows = list(_rows(call.target.detach().cpu(), lengths)) if lengths else []
    if not rows or not isinstance(blank, int):
        return None
    needed = [len(row) + sum(one == other for one, other in pairwise(row)) for row in rows]
    frames = _numbers(given.get("input_lengths"))
    short = [(given_to, needs) for given_to, needs in zip(frames, needed, strict=False) if given_to < needs]
    blanks = [sum(each == blank for each in row) for row in rows]
    return CtcTargets(
        blank=blank,
        sequences=len(rows),
        targets=sum(map(len, rows)),
        blanks=sum(blanks),
        with_blanks=sum(count > 0 for count in blanks),
        at_end=sum(_at_end(row, blank) for row in rows),
        too_short=len(short),
        first_short=next(iter(short), None),
        zeroes_infinity=bool(given.get("zero_infinity", False)),
    )


def _numbers(lengths: Any) -> list[int]:
    """Lengths that are a tensor, of one number or several, or a row of numbers."""
    if lengths is None:
        return []
    return [int(each) for each in library("torch").as_tensor(lengths).reshape(-1).tolist()]


def _rows(targets: Any, lengths: Sequence[int]) -> Iterator[list[int]]:
    """The classes of each sequence: of a padded batch, or of sequences that are joined to one."""
    # Lengths that do not fit raise an error in torch, or are of another version's form: nothing is counted then.
    if attribute(targets, "ndim", 0) == 2:
        if len(targets) == len(lengths) and max(lengths) <= targets.shape[1]:
            yield from (row[:length] for row, length in zip(targets.tolist(), lengths, strict=True))
    elif len(targets) == sum(lengths):
        joined, start = targets.tolist(), 0
        for length in lengths:
            yield joined[start : start + length]
            start += length


def _at_end(row: Sequence[int], blank: int) -> int:
    return next((position for position, each in enumerate(reversed(row)) if each != blank), len(row))
