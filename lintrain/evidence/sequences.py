"""What a probe measures of losses over sequences."""

from __future__ import annotations

from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class CtcTargets:
    """The targets of one call of CTC loss, as far as `target_lengths` count them.

    `blanks` of `targets` are the class of the blank, in `with_blanks` of `sequences`; `at_end` of these blanks are
    followed by no other class in their sequence.
    """

    blank: int
    sequences: int
    targets: int
    blanks: int
    with_blanks: int
    at_end: int
