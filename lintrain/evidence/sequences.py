"""What a probe measures of losses over sequences."""

from __future__ import annotations

from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class CtcTargets:
    """The targets of one call of CTC loss, as far as `target_lengths` count them.

    `blanks` of `targets` are the class of the blank, in `with_blanks` of `sequences`; `at_end` of these blanks are
    followed by no other class in their sequence. `too_short` sequences have no path: each target takes a frame, and
    two equal ones a blank between them. `first_short` are the frames of the first of these, and those that it needs.
    `zeroes_infinity`: the infinite loss of such a sequence is counted as 0.
    """

    blank: int
    sequences: int
    targets: int
    blanks: int
    with_blanks: int
    at_end: int
    too_short: int = 0
    first_short: tuple[int, int] | None = None
    zeroes_infinity: bool = False
