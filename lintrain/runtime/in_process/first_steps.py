"""The first steps of a real training run: seen through hooks, measured like a probe's stages, without changing
them.

The first entries of every weight: enough to see whether steps move it, at a small part of the memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from lintrain.evidence.fields import EvidenceFields
from lintrain.evidence.run import ForwardEvidence, SplitEvidence, StageName, StepEvidence
from lintrain.evidence.stages import TRAINING_STAGES
from lintrain.model.location import Location
from lintrain.runtime.child.library import attribute, has
from lintrain.runtime.child.measured_run import MeasuredRun
from lintrain.runtime.child.surroundings import same_random_numbers
from lintrain.runtime.frameworks.loop.loop_state import group_of
from lintrain.runtime.frameworks.loop.schedules import peak_of
from lintrain.runtime.in_process.session import InProcessSession
from lintrain.runtime.measure.arrow import arrow_columns
from lintrain.runtime.measure.batch import describe
from lintrain.runtime.measure.columns import label_column
from lintrain.runtime.measure.gradients import Gradients, backward_evidence
from lintrain.runtime.measure.model import measure_model
from lintrain.runtime.measure.predictions import number, shape_of
from lintrain.runtime.measure.seen import is_arrow, number_of_rows
from lintrain.runtime.measure.weights import FLOAT32_ROUNDING, SMALLEST_PULL, outside_optimizer, trainable

MOST_BATCHES = 4
COMPARED_STEPS = 2
NEAR_PEAK = 0.5
"""Steps are compared once the rate is this share of its peak: those of a warm-up may be too small for the format."""


class FirstSteps(MeasuredRun):
    """What the hooks report, as evidence.

    `limit` is the norm that gradients are clipped to; `holders` may hold the tokenizer; `labels` are the inputs that
    are labels; `steps` counts optimizer steps, `seen` is the count of the framework itself;
    `hooks` are taken out at the end. After `rests_after` steps nothing is read until the rate is near its peak.
    """

    def __init__(self, session: InProcessSession, call: Location | None, model: Any, loader: Any) -> None:
        super().__init__(session, call)
        self._model, self.loader = model, loader
        self._optimizers: tuple[Any, ...] = ()
        self.limit: float | None = None
        self.holders: tuple[tuple[Any, str], ...] = ()
        self.labels: tuple[str, ...] = ()
        self.steps = 0
        self.seen = 0
        self.rests_after: int | None = None
        self._rests = False
        self._gradients = Gradients(self)
        self._norms: dict[str, Any] = {}
        self.hooks: list[Any] = []
        self._corners: Corners | None = None

    @property
    def model(self) -> Any:
        """The module that is trained."""
        return self._model

    @property
    def collator(self) -> Any:
        """The loader's `collate_fn`."""
        return attribute(self.loader, "collate_fn", None)

    @property
    def optimizers(self) -> tuple[Any, ...]:
        """Those of the run, without wrappers."""
        return self._optimizers

    @property
    def clipped_at(self) -> float | None:
        """The norm that gradients are clipped to."""
        return self.limit

    @property
    def label_inputs(self) -> tuple[str, ...]:
        """What the framework takes for labels."""
        return self.labels

    def tokenizer_holders(self) -> Iterable[tuple[Any, str]]:
        """Those that were given, then the collator."""
        return (*self.holders, *super().tokenizer_holders())

    def is_stepped_by(self, *optimizers: Any) -> None:
        """Optimizers of torch, without wrappers."""
        self._optimizers = optimizers

    # what happens

    def start(self, facts: EvidenceFields) -> None:
        """Training is about to start: the model and its data are described, gradients are followed from now on."""
        self.begin(**facts)
        with same_random_numbers():
            self.attempt(StageName.DATASET, self._measure_dataset)
        for name, weight in trainable(self).items():
            # The hook sees the whole gradient, and before a library clips or clears it; the norm stays on the device,
            # so no step waits for it.
            self.hooks.append(weight.register_post_accumulate_grad_hook(self._keeps_norm(name)))

    def _measure_dataset(self) -> None:
        """Only columns that are there already: making rows would cost time, and draw from their random numbers."""
        self.measured(model=measure_model(self))
        dataset = attribute(self.loader, "dataset", None)
        if is_arrow(dataset):
            columns = arrow_columns(dataset)
            label = label_column(columns, self.label_inputs)
            rows, name = number_of_rows(dataset), label.name if label else None
            split = SplitEvidence("train_dataset", rows, tuple(columns), label_column=name)
            self.measured(splits=[split])

    def _keeps_norm(self, name: str) -> Any:
        def keep(weight: Any) -> None:
            if not self._rests:
                self._norms[name] = weight.grad.detach().float().norm()

        return keep

    def on_batch(self, batch: Any) -> None:
        """A batch goes into the model."""
        is_enough = self.rests_after is not None and self.steps >= self.rests_after
        self._rests = is_enough and self._corners is None and not self._is_near_peak()
        if len(self.batches) < MOST_BATCHES:
            self.batches.append(batch)
        if StageName.BATCH not in self.statuses:
            with same_random_numbers():
                self.attempt(StageName.BATCH, self._describe)

    def _describe(self) -> None:
        self.batch_evidence = [describe(self, "train_dataset", self.batches)]
        self.measured(batches=self.batch_evidence)

    def on_loss(self, loss: Any, output: Any) -> None:
        """The model gave a loss, or the step did."""
        if self._rests:
            return
        if not self.losses:
            self.output_keys, self.logits_shape = shape_of(output)
        self.losses.append(number(loss))

    def before_step(self, scale: float) -> None:
        """Gradients are complete: a step is about to be taken."""
        if self._rests:
            return
        self._read_gradients(scale)
        if self.losses and (StageName.FORWARD not in self.statuses or not math.isfinite(self.losses[-1])):
            self.attempt(StageName.FORWARD, lambda: None)
        if self.losses:
            self.measured(forward=self._forward_evidence())
        # During a warm-up from 0 nothing moves, which is no mistake: the weights are compared near the peak rate.
        if self._corners is None and self._is_near_peak():
            self._corners = Corners(trainable(self))
        if self._corners is not None:
            self._corners.feel(self.optimizers)

    def _read_gradients(self, scale: float) -> None:
        if StageName.BACKWARD not in self.statuses:
            self.attempt(StageName.BACKWARD, lambda: None)
        for name, norms in self._gradients.norms.items():
            norm = self._norms.get(name)
            norms.append(None if norm is None else float(norm) / scale)
        self._norms.clear()
        self.measured(backward=backward_evidence(self, self._gradients))

    def _forward_evidence(self) -> ForwardEvidence:
        return ForwardEvidence(
            losses=tuple(self.losses),
            chance=None,
            finite=all(math.isfinite(loss) for loss in self.losses),
            logits_shape=self.logits_shape,
            returned_keys=self.output_keys,
        )

    def _is_near_peak(self) -> bool:
        groups = [group for optimizer in self.optimizers for group in optimizer.param_groups]
        return any(float(group["lr"]) >= NEAR_PEAK * peak_of(group) for group in groups)

    def after_step(self, *, was_skipped: bool) -> None:
        """A step was taken, or the scaler left it out."""
        self.steps += 1
        if self._corners is None or StageName.STEP in self.statuses:
            return
        self._corners.steps += not was_skipped
        if self._corners.steps >= COMPARED_STEPS:
            self.attempt(StageName.STEP, self._measure_step)

    def _measure_step(self) -> None:
        corners = self._corners
        if corners is None:
            return
        moved = corners.moved()
        self.measured(
            step=StepEvidence(
                optimizer=type(self.optimizers[0]).__name__,
                groups=tuple(group_of(each, group) for each in self.optimizers for group in each.param_groups),
                trainable_tensors=len(corners.before),
                changed_tensors=len(moved),
                unchanged=tuple(sorted(corners.felt - moved)),
                outside_optimizer=outside_optimizer(self),
            )
        )

    def is_over(self, wanted: int) -> bool:
        """Whether so many steps were taken, and two of them near the peak rate were compared."""
        return self.steps >= wanted and StageName.STEP in self.statuses

    def close(self) -> None:
        """Nothing more is measured: remove the hooks, drop copies and batches."""
        for hook in self.hooks:
            hook.remove()
        # Described once more: the batch stage saw one batch, the counts of tokens are over all of them.
        if StageName.BATCH in self.statuses and len(self.batches) > 1:
            with same_random_numbers():
                self._describe()
        self.hooks, self.batches, self._corners = [], [], None
        self.skip_missing(TRAINING_STAGES, "the run did not reach it while it was watched")
        self.skip(StageName.EVALUATION, "it is not watched")
        self.finish()


def bare(optimizer: Any) -> Any:
    """The optimizer of torch under wrappers of accelerate or Lightning."""
    for name in ("optimizer", "_optimizer"):
        inner = attribute(optimizer, name, None)
        if inner is not None and has(inner, "param_groups"):
            return inner
    return optimizer


ENTRIES = 4_096


class Corners:
    """Copies of the first entries of weights; `felt` names those whose gradients there should have moved them."""

    def __init__(self, weights: dict[str, Any]) -> None:
        self.weights = weights
        # This is the user's real training: copying all weights could end it for lack of memory.
        self.before = {name: _corner(weight.detach()).clone() for name, weight in weights.items()}
        self.felt: set[str] = set()
        self.steps = 0

    def feel(self, optimizers: tuple[Any, ...]) -> None:
        """Note which weights have gradients, before a step that uses them."""
        rates = _smallest_felt(optimizers)
        self.felt |= {name for name, weight in self.weights.items() if _pulls(weight, rates)}

    def moved(self) -> set[str]:
        """The weights whose first entries have changed."""
        return {name for name, weight in self.weights.items() if not _corner(weight.detach()).equal(self.before[name])}


def _corner(tensor: Any) -> Any:
    return tensor.reshape(-1)[:ENTRIES]


def _smallest_felt(optimizers: tuple[Any, ...]) -> float | None:
    """The rate of plain SGD, whose steps are as small as its gradients; None if the size of a step does not depend
    on its gradient.
    """
    if not any(type(optimizer).__name__ == "SGD" for optimizer in optimizers):
        return None
    return max(float(group["lr"]) for optimizer in optimizers for group in optimizer.param_groups)


def _pulls(weight: Any, rate: float | None) -> bool:
    """Whether a gradient exceeds rounding noise relative to its weight, and a step of SGD what float32 loses."""
    if weight.grad is None:
        return False
    gradient, value = _corner(weight.grad.detach()).float(), _corner(weight.detach()).float()
    is_noise = bool(gradient.norm() <= SMALLEST_PULL * value.norm().clamp(min=1e-6))
    if is_noise or rate is None:
        return not is_noise
    return bool((rate * gradient.abs() > FLOAT32_ROUNDING * value.abs()).any())
