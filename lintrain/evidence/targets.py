"""What the batch stage measures of labels that are tokens: how many are scored, and which tokens they repeat."""

from __future__ import annotations

from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ScoredTokens:
    """Counts over the probed batches; None where labels and tokens do not lie side by side.

    `scored` labels are not -100; `padding` of them stand on padding. `equal_to_inputs` are those that repeat the input
    of the same position, `equal_to_next` those that repeat the next input (of `with_next` that have one), and
    `equal_to_decoder` those that the decoder gets at the same position.
    """

    scored: int
    padding: int | None = None
    equal_to_inputs: int | None = None
    equal_to_next: int | None = None
    with_next: int = 0
    equal_to_decoder: int | None = None

    def plus(self, other: ScoredTokens) -> ScoredTokens:
        """The counts of two batches together."""
        return ScoredTokens(
            self.scored + other.scored,
            _sum(self.padding, other.padding),
            _sum(self.equal_to_inputs, other.equal_to_inputs),
            _sum(self.equal_to_next, other.equal_to_next),
            self.with_next + other.with_next,
            _sum(self.equal_to_decoder, other.equal_to_decoder),
        )


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
