"""What a probe measures by calling the model again: the same rows in eval mode, with one thing changed at a time."""

from __future__ import annotations

from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class SpreadEvidence:
    """How much the outputs of different rows differ, as a share of their largest value: at first, and after two steps.

    `rows` is how many different ones there are; `dtype` is that of the outputs. None for what was not measured.
    """

    rows: int
    dtype: str
    before: float | None
    after: float | None = None


@dataclass(frozen=True, slots=True)
class MaskEvidence:
    """Rows with padding, with and without their mask; changes are shares of the largest output.

    `given`: the model receives a mask. `change` is that of the outputs at attended positions if padding is attended
    too. `cut` is that of the row with the most padding if it is passed alone, without its `cut_tokens` tokens of
    padding; None if it cannot be cut.
    """

    given: bool
    rows: int
    padding: int
    change: float
    cut: float | None = None
    cut_tokens: int = 0


@dataclass(frozen=True, slots=True)
class FutureEvidence:
    """Scored positions of next-token targets, called again with the target itself changed in the model's input.

    `equal_to_next` of the targets are the token after their position. `change` is that of the outputs at these
    positions, as a share of the largest output. `doubt` says why even a change would prove nothing.
    """

    positions: int
    equal_to_next: float
    change: float
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class ResponseEvidence:
    """The model called again: `noise` is by how much outputs for the same input differ, as a share of the largest.

    It is measured only if later tokens changed the outputs, and 0 otherwise. `reason` says why nothing, or not
    everything, was measured.
    """

    noise: float = 0.0
    spread: SpreadEvidence | None = None
    mask: MaskEvidence | None = None
    future: FutureEvidence | None = None
    reason: str = ""
