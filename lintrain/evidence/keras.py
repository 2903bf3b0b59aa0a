"""What a probe measures of `Model.fit` of Keras in addition to what every run has."""

from __future__ import annotations

from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class KerasEvidence:
    """The loss of `compile`, and its arguments in the first batch.

    `loss` is its name in Keras (`sparse_categorical_crossentropy`), empty for one of the script's own or several;
    `from_logits` is None if it has no such setting. The shapes are empty if the loss was not reached, or if there are
    several outputs. `sums` are the least and greatest sum over the last axis of the outputs. `inputs` are the names in
    a dictionary of inputs; `has_targets` says whether the batch has a second part. `modal_calls` counts the calls of
    dropout, batch normalisation and other layers that work differently in training, within one training step,
    `modal_calls_in_training` those in training mode. `corrected` is the loss of the run and that of the same outputs
    as mere numbers, where the library computes it from something before them.
    """

    loss: str
    from_logits: bool | None
    inputs: tuple[str, ...]
    has_targets: bool
    output_shape: tuple[int, ...] = ()
    output_minimum: float | None = None
    output_maximum: float | None = None
    sums: tuple[float, float] | None = None
    target_shape: tuple[int, ...] = ()
    target_dtype: str = ""
    modal_calls: int = 0
    modal_calls_in_training: int = 0
    corrected: tuple[float, float] | None = None

    @property
    def units(self) -> int | None:
        """Entries of the last axis of the outputs, or None if the loss was not reached."""
        return self.output_shape[-1] if len(self.output_shape) > 1 else None

    @property
    def span(self) -> str:
        """The range of the outputs in words."""
        return f"outputs from {self.output_minimum or 0.0:.3g} to {self.output_maximum or 0.0:.3g}"

    @property
    def are_within_one(self) -> bool | None:
        """Whether every output is between 0 and 1; None if there is none."""
        if self.output_minimum is None or self.output_maximum is None:
            return None
        return self.output_minimum >= 0.0 and self.output_maximum <= 1.0

    @property
    def are_probabilities(self) -> bool | None:
        """Whether every row of outputs is a distribution over classes (or a probability, of one unit)."""
        if self.are_within_one is None or self.sums is None:
            return None
        is_whole = self.units == 1 or all(abs(each - 1.0) < NEAR for each in self.sums)
        return self.are_within_one and is_whole

    @property
    def targets_are_rows(self) -> bool | None:
        """Whether the targets have an entry for each class, as one-hot rows have; None if there are none."""
        if not self.target_shape or self.units is None:
            return None
        return len(self.target_shape) == len(self.output_shape) and self.target_shape[-1] == self.units != 1


@dataclass(frozen=True, slots=True)
class WatchedNames:
    """The names that callbacks of Keras monitor, and the names that an epoch of the run logs.

    `computed` are those of a training step and of the evaluation; `missing` those of `watched` that are not among
    them, although every part of an epoch passed, and that no callback of the script's own contains.
    """

    watched: tuple[str, ...]
    computed: tuple[str, ...]
    missing: tuple[str, ...]


NEAR = 1e-3
