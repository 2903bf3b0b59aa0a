"""What a probe measures of a training loop that the script runs by itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LossEvidence:
    """One call of a loss function of torch in the first iteration: what it was given and what it gave.

    `row_sums` are the least and greatest sum of `exp(input)` or of `input` over the class axis, whichever is nearer to
    1: both are 1 for (log-)probabilities. `ignored` is the share of targets that equal `ignore_index`.
    """

    function: str
    input_shape: tuple[int, ...]
    input_dtype: str
    input_minimum: float | None
    input_maximum: float | None
    target_shape: tuple[int, ...]
    target_dtype: str
    target_minimum: float | None
    target_maximum: float | None
    value: float | None
    sums_of_inputs: tuple[float, float] | None = None
    sums_of_exponentials: tuple[float, float] | None = None
    ignored: float | None = None
    is_plain: bool = True

    @property
    def gives_probabilities(self) -> bool:
        """Whether the inputs are probabilities over the classes already: none below 0, and every row adds up to 1."""
        return _are_one(self.sums_of_inputs) and (self.input_minimum or 0.0) >= 0.0

    @property
    def gives_log_probabilities(self) -> bool:
        """Whether the inputs are log-probabilities: none above 0, and their exponentials add up to 1."""
        return _are_one(self.sums_of_exponentials) and (self.input_maximum or 0.0) <= 0.0


NEAR = 1e-3


def _are_one(sums: tuple[float, float] | None) -> bool:
    return sums is not None and all(abs(each - 1.0) < NEAR for each in sums)


@dataclass(frozen=True, slots=True)
class LoopEvidence:
    """How often things happened in the first steps of a loop of the script's own.

    `batches`, `backwards`, `steps`, `clips`: how many there were; `backwards_per_step` for every step.
    `stepped_on_nothing`: steps on no gradients at all. `added_to_old_gradients`: gradients added to some that a step
    had used. `clipped_for_nothing`: clipping where no fresh gradients were; `clipped_while_scaled`: of gradients still
    multiplied by the scale. `undivided_losses`: of several added up to one step, those not divided by anything;
    `divided_twice`: those divided two times. `kept_old_graphs`: backward passes while the graph of an earlier one was
    still held. `past_the_launcher`: backward passes that accelerate or Fabric did not make. `trained_in_eval_mode`,
    `evaluated_in_train_mode`: forward passes of models with dropout or batch norm. `recorded_for_nothing`: forward
    passes that autograd recorded and no backward pass used. `learning_rates` of the first group, step by step.
    """

    batches: int = 0
    backwards: int = 0
    steps: int = 0
    backwards_per_step: tuple[int, ...] = ()
    stepped_on_nothing: int = 0
    added_to_old_gradients: int = 0
    clips: int = 0
    clipped_for_nothing: int = 0
    clipped_while_scaled: int = 0
    undivided_losses: int = 0
    divided_twice: int = 0
    kept_old_graphs: int = 0
    past_the_launcher: int = 0
    trained_in_eval_mode: int = 0
    evaluated_in_train_mode: int = 0
    recorded_for_nothing: int = 0
    schedule_steps: int = 0
    learning_rates: tuple[float, ...] = ()
    losses: tuple[LossEvidence, ...] = ()
