"""What a probe measures by asking the model again: the same rows in eval mode, with one thing changed at a time."""

from __future__ import annotations

from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class SpreadEvidence:
    """How far the answers to different rows lie apart, as a share of their largest value: at first, after two steps.

    `rows` is how many different ones there are; `dtype` is that of the answers. None for what was not measured.
    """

    rows: int
    dtype: str
    before: float | None
    after: float | None = None


@dataclass(frozen=True, slots=True)
class MaskEvidence:
    """Rows with padding, with and without their mask; changes are shares of the largest answer.

    `given` says whether the model got a mask. `change` is that of the answers at attended places once padding is
    attended too. `cut` is that of the row with the most padding when it is asked alone, without its `cut_tokens`
    tokens of padding; None where it cannot be cut.
    """

    given: bool
    rows: int
    padding: int
    change: float
    cut: float | None = None
    cut_tokens: int = 0


@dataclass(frozen=True, slots=True)
class FutureEvidence:
    """Scored positions of next-token targets, asked again with the target itself changed in the model's input.

    `equal_to_next` of the targets are the token behind their position. `change` is that of the answers at these
    positions, as a share of the largest answer. `doubt` says why even a change would prove nothing.
    """

    positions: int
    equal_to_next: float
    change: float
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class ResponseEvidence:
    """The model asked again: `noise` is by how much answers to the same question differ, as a share of the largest.

    It is asked for only where later tokens moved the answers, and else 0. `reason` says why nothing, or not all of
    it, was asked.
    """

    noise: float = 0.0
    spread: SpreadEvidence | None = None
    mask: MaskEvidence | None = None
    future: FutureEvidence | None = None
    reason: str = ""
