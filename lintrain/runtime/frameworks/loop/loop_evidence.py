"""What was seen of a loop, as evidence: its counts, its forward passes, its measured steps and its evaluation.

Also what its model answers when it is called again with the first batch, and where the loss stopped being finite.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from lintrain.evidence.run import (
    EvaluationEvidence,
    ForwardEvidence,
    LoopEvidence,
    LossTerm,
    MetricUse,
    NonFiniteRows,
    OptimizerGroup,
    ReachedWeights,
    StepEvidence,
)
from lintrain.runtime.child.hooks import Given
from lintrain.runtime.child.library import attribute, has, loaded
from lintrain.runtime.child.measured_run import MeasuredRun
from lintrain.runtime.frameworks.loop.loaders import LoaderRun
from lintrain.runtime.frameworks.loop.loop_state import LoopState
from lintrain.runtime.frameworks.loop.metrics import MetricUses
from lintrain.runtime.frameworks.loop.model import inputs_of
from lintrain.runtime.measure.calls import Call
from lintrain.runtime.measure.columns import shared_rows
from lintrain.runtime.measure.encodings import measure_encodings
from lintrain.runtime.measure.losses import NonFiniteModule, chance_of, first_non_finite, loss_evidence, tokens_of
from lintrain.runtime.measure.model import is_fresh
from lintrain.runtime.measure.objects.statements import mentions
from lintrain.runtime.measure.predictions import numbers_in
from lintrain.runtime.measure.responses import Responses
from lintrain.runtime.measure.seen import Forward, Iteration, LossCall, tensors_in
from lintrain.runtime.measure.tables import record_batches, show_predictions
from lintrain.runtime.measure.tokenizer import find_tokenizer
from lintrain.runtime.measure.weights import Frozen, changed, changed_share, non_finite, updates

MOST_LOSSES = 4
MOST_LOADERS = 4
MENTIONED: Mapping[Literal["seed", "accumulation", "schedule"], str] = {
    "seed": "seed|generator|determin",
    "accumulation": r"/=?[ \t]*\(?[ \t]*[\w.]*(accum|steps)",
    "schedule": r"(sched|lr|warm|decay)\w*(\[\w+\])?\.step\(",
}


class DescribedIteration:
    """What the evidence holds of an iteration, without its tensors."""

    def __init__(self, iteration: Iteration) -> None:
        self.inputs = inputs_of(iteration)
        self.losses = tuple(loss_evidence(call) for call in iteration.losses[:MOST_LOSSES])


def loop_evidence(
    state: LoopState,
    first: DescribedIteration,
    reached: ReachedWeights | None,
    terms: tuple[LossTerm, ...],
    counts: dict[str, int],
) -> LoopEvidence:
    """Everything counted so far; the losses are those of the first iteration."""
    effects = state.effects
    return LoopEvidence(
        **counts,
        came_round=state.comes_round,
        ended=state.is_over or state.rounds > 0,
        rounds_planned=state.rounds_planned,
        is_cut_short=state.is_cut_short,
        rows_in_pairs=state.rows_in_pairs,
        backwards_per_step=tuple(effects.per_step),
        batches_per_step=tuple(effects.batches_per_step),
        accumulates=batches_asked_for(),
        loader=state.loaders.use_of(state.loader),
        inputs=first.inputs,
        learning_rates=tuple(effects.rates),
        optimizers=effects.ledger.uses(),
        schedules=state.schedules.uses(),
        reached=reached,
        terms=terms,
        losses=first.losses,
        seen_at=dict(effects.counts.first_at),
        skipped=state.ran_lines.skipped(has_come_round=effects.counts["backwards"] > 1),
        mentions=tuple(subject for subject, pattern in MENTIONED.items() if mentions(pattern)),
    )


def batches_asked_for() -> int:
    """The batches that accelerate accumulates for a step; 1 without it."""
    accelerate = loaded("accelerate.state")
    # The shared state and no instance: creating one would set up accelerate in a script that has not done so.
    shared: dict[str, Any] = accelerate.GradientState._shared_state if accelerate is not None else {}
    asked = shared.get("plugin_kwargs", {}).get("num_steps")
    return asked if isinstance(asked, int) else 1


def forward_evidence(
    run: MeasuredRun,
    non_finite: NonFiniteModule | None,
    loss: LossCall | None,
    rows: NonFiniteRows | None = None,
    head: str | None = None,
) -> ForwardEvidence:
    """The losses so far; `non_finite` is where the first of them stopped being finite, `head` a frozen random layer."""
    finite = all(math.isfinite(each) for each in run.losses)
    return ForwardEvidence(
        losses=tuple(run.losses),
        chance=chance_of(loss),
        finite=finite,
        logits_shape=run.logits_shape,
        returned_keys=run.output_keys,
        fresh_head=run.session.knows_origins and (not has(run.model, "state_dict") or is_fresh(run.model)),
        standard_loss=loss is not None,
        first_non_finite=non_finite.module if non_finite else None,
        first_non_finite_input=non_finite.input_was if non_finite else None,
        first_non_finite_range=non_finite.range if non_finite else None,
        non_finite_rows=rows,
        random_head=head,
    )


def step_evidence(
    run: MeasuredRun,
    optimizer: Any,
    groups: tuple[OptimizerGroup, ...],
    before: dict[str, Any],
    pulled: set[str],
    outside: tuple[str, ...],
    frozen: Frozen | None,
    steps: int,
) -> StepEvidence:
    """The weights, compared with those before the measured steps."""
    moved = changed(run, before)
    if run.responses is not None and moved:
        run.responses.after_steps()
    return StepEvidence(
        optimizer=type(optimizer).__name__,
        groups=groups,
        trainable_tensors=len(before),
        changed_tensors=len(moved),
        unchanged=tuple(sorted(pulled - moved)),
        outside_optimizer=outside,
        changed_share=changed_share(run, before, outside),
        non_finite=non_finite(run),
        updates=updates(run, before, steps),
        frozen_moved=frozen.moved() if frozen else None,
        frozen_statistics=frozen.statistics() if frozen else 0,
    )


def responses_of(run: MeasuredRun, iteration: Iteration, loss: Any) -> Responses | None:
    """Repeated calls like the last one of the model that autograd recorded; None if there was none."""
    forward = _trained(run, iteration)
    if forward is None:
        return None
    call = Call(forward.called, forward.args, forward.kwargs)
    tokens = tokens_of(_losses_on(iteration, call), loss, run.model)
    # Repeated after the steps as well: an argument that another model computed would keep that one's graph until then.
    given = {path: tensor.detach() for path, tensor in call.tensors().items() if tensor.grad_fn is not None}
    return Responses(run, call.changed(given), tokens, iteration.losses)


def _losses_on(iteration: Iteration, call: Call) -> list[LossCall]:
    """The losses after a call with the same tokens; all of them if the model reads no tokens."""
    ids = call.tensors()[call.ids] if call.ids is not None else None
    return [each for each in iteration.losses if ids is None or each.ids is ids]


def _trained(run: MeasuredRun, iteration: Iteration) -> Forward | None:
    return next((each for each in reversed(iteration.forwards) if each.records and each.module is run.model), None)


def non_finite_module_of(run: MeasuredRun, iteration: Iteration | None) -> NonFiniteModule | None:
    """The first part of the model with an output that is not finite; None if its call cannot be made again."""
    # The same autocast as in the script's pass: in full precision the overflow that is looked for does not happen.
    forward = _trained(run, iteration) if iteration is not None else None
    if forward is None:
        return None
    with forward.autocast:
        return first_non_finite(forward.called, lambda: forward.called(*forward.args, **forward.kwargs))


class FollowedEvaluation:
    """What was measured of it so far; `values` are the numbers that a library logged in it, by name."""

    def __init__(self, run: LoaderRun, state: LoopState, metrics: MetricUses) -> None:
        self._run, self._state, self._metrics = run, state, metrics
        self.batches = self.rows = 0
        self._is_described = False
        self._is_answered = True
        self._waiting: tuple[Any, Any] | None = None
        self._answer: Any = None
        self._loaders: list[Any] = []
        self._of_steps: list[Any] = []  # loaders that give each training step a second batch
        self.values: dict[str, float] = {}

    @property
    def is_seen(self) -> bool:
        """Whether anything of it was seen: a batch of another loader, a pass of the model, a metric after the
        training.
        """
        is_judged = any(not use.is_training for use in self._metrics.every)
        return bool(self.batches or self._waiting or self._state.passes.counts["evaluated"]) or is_judged

    def on_batch(self, loader: Any, batch: Any) -> None:
        """A loader other than that of the training gave a batch; the first one is described, and its data.

        It counts when the next thing happens: with a backward pass of its own it begins another training.
        """
        if any(loader is other for other in self._of_steps):
            return
        with self._state.paused():
            self.flush()
            self._waiting, self._answer = (loader, batch), None

    @property
    def is_waiting(self) -> bool:
        """Whether it is not known yet what the last batch is for."""
        return self._waiting is not None

    def awaits(self, loader: Any) -> bool:
        """Whether the last batch is of this loader, and not known to be for evaluation."""
        return self._waiting is not None and self._waiting[0] is loader

    def flush(self) -> None:
        """The batch that waits is one of the evaluation."""
        if self._waiting is None:
            return
        # Emptied first, so that a batch whose description raises is not counted again.
        (loader, batch), self._waiting = self._waiting, None
        self.batches += 1
        self.rows += rows_in(batch)
        if len(self._loaders) < MOST_LOADERS and all(loader is not other for other in self._loaders):
            self._loaders.append(loader)
        if not self._is_described:
            self._is_described = True
            self._describe(loader, batch)
        if not self._is_answered and self._answer is not None:
            self._is_answered = True
            show_predictions(self._run, "eval_dataset", self._answer)
        self._answer = None

    def forget(self, loader: Any) -> None:
        """The batch that waits is the first of another training."""
        if self.awaits(loader):
            self._waiting = None

    def on_forward(self, output: Any) -> None:
        """A model gave its output: the first one after the first batch is about its rows."""
        if self._waiting is not None and self._answer is None:
            self._answer = output
        elif not self._is_answered:
            self._is_answered = True
            with self._state.paused():
                show_predictions(self._run, "eval_dataset", output)

    def leave_out_unread(self) -> None:
        """The training gets its next batch: one of another loader that no model was given belongs to that step."""
        # `for (x, y), (u,) in zip(labelled, unlabelled)`: a batch of each, and then the model.
        if self._waiting is not None and self._answer is None:
            self._of_steps.append(self._waiting[0])
            self._waiting = None

    def restart(self) -> None:
        """A library evaluates again: only the last pass is reported."""
        with self._state.paused():
            self.flush()
        self.batches = self.rows = 0

    def on_logged(self, values: Mapping[str, Any], before: Mapping[str, Any]) -> None:
        """The numbers that a library holds after it; those from before do not belong to it."""
        # By identity: a number that training logged stays in the library's dictionary, and the same object means that
        # validation did not log it.
        fresh = {name: value for name, value in values.items() if name not in before or value is not before[name]}
        self.values.update(numbers_in(fresh))

    def _describe(self, loader: Any, batch: Any) -> None:
        run = self._run
        run.measure_split("eval_dataset", loader)
        measure_encodings(run, find_tokenizer(run))
        train, held_out = attribute(run.loader, "dataset", None), attribute(loader, "dataset", None)
        if train is not None and held_out is not None:
            given = [Given("train_dataset", train), Given("eval_dataset", held_out)]
            run.measured(shared_rows=shared_rows(given))
        record_batches(run, "eval_dataset", [batch])
        self._is_answered = False

    def evidence(self) -> EvaluationEvidence | None:
        """All of it; None if neither an evaluation nor a metric was seen."""
        self.flush()
        self._metrics.compare()
        passes, uses = self._state.passes, self._metrics.every
        if not self.is_seen and not uses:
            return None
        counts = passes.counts
        values = {**self.values, **{name: value for use in uses if not use.is_training for name, value in _named(use)}}
        return EvaluationEvidence(
            wanted=self.is_seen,
            has_metric_function=False,
            is_followed=True,
            rows=self.rows,
            batches=self.batches,
            passes=counts["evaluated"],
            passes_in_training_mode=counts["evaluated_in_train_mode"],
            recorded_passes=counts["recorded_for_nothing"],
            losses=tuple(passes.evaluated_losses),
            called=tuple(passes.evaluated_calls),
            predictions_shape=passes.evaluated_shape,
            metric_uses=uses,
            loaders=tuple(use for each in self._loaders if (use := self._state.loaders.use_of(each)) is not None),
            metrics=dict(values),
            of_constant=_merged(uses, "of_constant"),
            of_random=_merged(uses, "of_random"),
            non_finite=tuple(name for name, value in values.items() if not math.isfinite(value)),
        )


def _named(use: Any) -> list[tuple[str, float]]:
    return [(name or use.function, value) for name, value in use.values.items()]


def _merged(uses: tuple[MetricUse, ...], which: str) -> dict[str, float]:
    """The scores of all metrics for the same answers; a bare one by the name of its function."""
    return {name or use.function: score for use in uses for name, score in getattr(use, which).items()}


def rows_in(batch: Any) -> int:
    """The rows of the first tensor of a batch; 0 if there is none."""
    return next((int(tensor.shape[0]) for tensor in tensors_in(batch) if len(tensor.shape)), 0)
