"""A run in a loop of the script's own: its evidence, stage by stage, from the events of the watch."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

from lintrain.evidence.fields import EvidenceFields
from lintrain.evidence.run import LossTerm, NonFiniteRows, OptimizerGroup, ReachedWeights, Stage, StageName
from lintrain.evidence.stages import AFTER_TRAINING, TRAINING_STAGES, StageStatus
from lintrain.model.location import Location
from lintrain.runtime.child.label_rows import of_training
from lintrain.runtime.child.library import attribute, gpu_answers
from lintrain.runtime.child.probe_session import ProbeSession
from lintrain.runtime.child.surroundings import statement_now
from lintrain.runtime.frameworks.loop.loaders import LoaderRun
from lintrain.runtime.frameworks.loop.loop_evidence import (
    DescribedIteration,
    FollowedEvaluation,
    forward_evidence,
    loop_evidence,
    non_finite_module_of,
    responses_of,
    step_evidence,
)
from lintrain.runtime.frameworks.loop.loop_state import LoopState, Worked, framework, group_of
from lintrain.runtime.frameworks.loop.memory import CountedStep
from lintrain.runtime.frameworks.loop.metrics import MetricUses
from lintrain.runtime.frameworks.loop.model import (
    arguments_of,
    batch_of,
    held_by,
    is_about,
    judged_rows,
    output_of,
    scored_output,
    trained_module,
    used_entries,
)
from lintrain.runtime.frameworks.loop.overfit import FirstBatch
from lintrain.runtime.frameworks.loop.schedules import peak_of
from lintrain.runtime.measure.encodings import measure_encodings
from lintrain.runtime.measure.gradients import Gradients, backward_evidence, reached_weights, terms_of
from lintrain.runtime.measure.losses import NonFiniteModule, NonFiniteSearch, rows_in_pairs, standard_loss
from lintrain.runtime.measure.model import measure_model
from lintrain.runtime.measure.non_finite import non_finite_rows
from lintrain.runtime.measure.objects.origins import locations_of
from lintrain.runtime.measure.predictions import IGNORED, number, shape_of
from lintrain.runtime.measure.random_head import random_head
from lintrain.runtime.measure.seen import Iteration, LossCall, number_of_rows
from lintrain.runtime.measure.tables import Source, record_batches, show_predictions, show_rows
from lintrain.runtime.measure.tokenizer import find_tokenizer, measure_tokenizer
from lintrain.runtime.measure.weights import Frozen, is_felt, outside_optimizer, pulls, snapshot, trainable

MEASURED_STEPS = 2
"""Steps that are taken at the peak learning rate and compared."""
AFTER_DATASET = (*TRAINING_STAGES, StageName.EVALUATION)


class LoopRun(LoaderRun):
    """The evidence of a loop of the script's own: the watch calls a method here for each thing that happens in it."""

    def __init__(self, session: ProbeSession, call: Location | None, state: LoopState, metrics: MetricUses) -> None:
        super().__init__(session, call)
        self.is_settled = False
        self._settled_at, self._since_settled = 0.0, Worked()
        self._state = state
        state.on_iteration_end = self._let_go
        self.memory = CountedStep(self, state)
        self._model: Any = None
        self._gradients: Gradients | None = None
        self._is_fresh_backward = self._is_own_loss = True
        self._before: dict[str, Any] = {}
        self._pulled: set[str] = set()
        self._groups: tuple[OptimizerGroup, ...] = ()
        self._rates: list[float] = []
        self._steps = 0
        self._first: Iteration | None = None
        self._described: DescribedIteration | None = None
        self._frozen: Frozen | None = None
        self._non_finite: NonFiniteModule | None = None
        self._bad_rows: NonFiniteRows | None = None
        self._head: str | None = None
        self._search = NonFiniteSearch()
        self._loss: LossCall | None = None
        self._reached: ReachedWeights | None = None
        self._terms: tuple[LossTerm, ...] = ()
        self.evaluation = FollowedEvaluation(self, state, metrics)
        self._first_batch: FirstBatch | None = None

    @property
    def model(self) -> Any:
        """The module that was called and that the optimizer trains."""
        return self._model

    @property
    def has_failed(self) -> bool:
        """Whether the script's own error ended one of its stages."""
        return StageStatus.FAILED in self.statuses.values()

    @property
    def optimizers(self) -> tuple[Any, ...]:
        """Those that hold a parameter of the model."""
        own = {id(weight) for weight in self.model.parameters()}
        return tuple(optimizer for optimizer in self._state.optimizers if own & held_by(optimizer))

    # stages

    def enter(self, loader: Any, iteration: Iteration, *, loss: Any = None, failed: StageName | None = None) -> None:
        """The loop was reached: report it, and measure its data; `failed` names the stage that the script ended in."""
        self.loader = loader
        self._model = trained_module(iteration, self._state.focus or self._state.optimizers, loss)
        self._first_batch = FirstBatch(self, self._state) if self.session.overfit else None
        self.begin(**self._facts())
        # After an error in a kernel every call on the GPU raises it again, so no data can be measured.
        if failed is not None and not gpu_answers():
            before = [stage for stage in (StageName.DATASET, StageName.BATCH) if stage is not failed]
            self.skip_missing(before, "the GPU of this process is lost to an error")
            return
        self.attempt(StageName.DATASET, self._measure_dataset)
        if failed is StageName.BATCH:
            return
        batch = batch_of(iteration)
        if batch is None:
            self.skip(StageName.BATCH, "the loop does not take its batches from a `DataLoader`")
        else:
            self.batches.append(batch)
            self.attempt(StageName.BATCH, self._describe_batch)

    def _facts(self) -> EvidenceFields:
        return {
            "framework": framework(self.session),
            "trainer": "a loop",
            "construction": None,
            "device": str(next((weight.device for weight in self.model.parameters()), "cpu")),
            "arguments": {},
            "locations": locations_of(self.session.origins, self.model, find_tokenizer(self), collator=self.collator),
        }

    def _measure_dataset(self) -> None:
        self.measured(model=measure_model(self), tokenizer=measure_tokenizer(self))
        self.measure_split("train_dataset", self.loader)
        rows = number_of_rows(attribute(self.loader, "dataset", None))
        self.measured(conflicts=of_training(self.session, rows))

    def _describe_batch(self) -> None:
        measure_encodings(self, find_tokenizer(self))
        self.batch_evidence = []
        record_batches(self, "train_dataset", self.batches, source=self._source())

    def _source(self) -> Source | None:
        """The loader's data set and its collator, for rows that are asked for; None if it makes its own batches."""
        dataset, collate = attribute(self.loader, "dataset", None), self.collator
        if dataset is None or collate is None or attribute(self.loader, "batch_size", None) is None:
            return None
        return Source(dataset, lambda rows: [collate([dataset[row] for row in rows])])

    def on_backward_start(self, iteration: Iteration, loss: Any) -> None:
        """A loss is there; of several models that are trained together, only one is measured."""
        # Asked once per step: walking the graph for every micro-batch would be slow, and the answer does not change
        # within a step.
        if self._is_fresh_backward or not self._state.effects.per_step:
            self._is_own_loss = is_about(loss, self.model, held_by(*self._state.optimizers))
        if not self._is_own_loss:
            return
        self._state.odd_calls.teachers.on_backward_start(iteration, held_by(*self._state.optimizers))
        # The plain cross-entropy without the division by accumulation steps: that is the number which is compared
        # with ln(classes).
        standard = standard_loss(iteration, loss)
        if not self._state.effects.per_step:  # later ones come from weights that steps at the peak rate have changed
            self.losses.append(
                number(loss) / self._state.effects.scale if standard is None else number(standard.result)
            )
        if self._first is None:
            self._first = iteration
            self._loss = standard
            output = scored_output(iteration, self.model, standard)
            self.output_keys, self.logits_shape = shape_of(output)
            self._head = random_head(self.model, output)
            self._reached = self._reached_weights(iteration, loss)
            self._terms = terms_of(loss, iteration.losses)
            self._state.rows_in_pairs = rows_in_pairs(loss)
            self._state.effects.counts.note("stable_logs", self._state.odd_calls.on_loss_graph(loss, iteration.losses))
            # Only then: the search needs a forward pass of its own.
            if self.losses and not math.isfinite(self.losses[0]):
                self._non_finite = non_finite_module_of(self, iteration)
                self._bad_rows = non_finite_rows(iteration.losses, output_of(iteration, self.model), iteration.batch)
            self.attempt(StageName.FORWARD, self._measure_forward)
            self._show_predictions(iteration)
            self.responses = responses_of(self, iteration, loss)
            # Hooks for this one backward pass; `on_backward_end` closes them, before a later pass could pay for them.
            self._search.watch(loss, self.model)
            if self._first_batch is not None:
                self._first_batch.keep(iteration, loss)

    def _let_go(self, iteration: Iteration) -> None:
        """The next batch begins: the graph of the first one is the script's to keep, and not the probe's."""
        if iteration is self._first and self._described is None:
            self._described = DescribedIteration(iteration)
            iteration.let_go()

    def _reached_weights(self, iteration: Iteration, loss: Any) -> ReachedWeights | None:
        every = (*self._state.optimizers, *self._state.earlier)
        groups = (group for optimizer in every for group in optimizer.param_groups)
        held = {id(weight): weight for group in groups for weight in group["params"]}
        found = reached_weights(loss, held, iteration.forwards, iteration.losses)
        return replace(found, outside_at=None) if found is not None and self._state.trains_behind else found

    def _measure_forward(self) -> None:
        self.measured(forward=forward_evidence(self, self._non_finite, self._loss, self._bad_rows, self._head))

    def _show_predictions(self, iteration: Iteration) -> None:
        """Put the outputs of the first batch into the table of its rows, next to what the loss compares them with."""
        calls = [call for call in (self._loss, *iteration.losses[-1:]) if call is not None]
        target = calls[0].target if calls else None
        ignored = calls[0].options.get("ignore_index", IGNORED) if calls else IGNORED
        output = scored_output(iteration, self.model, calls[0] if calls else None)
        if (judged := judged_rows(iteration, self.model)) is not None:
            target, output = judged[0].target, judged[1]
        if not self.tables:  # no loader gave a batch: what the model was called with
            show_rows(self, "train_dataset", [arguments_of(iteration, self.model)])
        used = used_entries(iteration)
        show_predictions(self, "train_dataset", output, target=target, ignored=ignored, used=used)

    def on_backward_end(self) -> None:
        """Gradients are there: those of the first batch since a step are read."""
        self._search.close()
        if self._gradients is None:
            self._gradients = Gradients(self)
        if not self._is_fresh_backward or not self._is_own_loss:
            return
        # With accumulation only the first micro-batch of a step is read; later ones hold the sum of all before.
        self._is_fresh_backward = False
        gradients = self._gradients
        if StageName.BACKWARD not in self.statuses:
            self.attempt(StageName.BACKWARD, lambda: gradients.read(self._state.effects.scale, keep=True))
            if self.responses is not None:
                self.responses.measure()
        else:
            gradients.read(self._state.effects.scale, keep=True)
        gradients.non_finite = self._search.found
        self._measure_forward()
        self.measured(backward=backward_evidence(self, gradients))

    def on_step_start(self, optimizer: Any) -> None:
        """A step is about to be taken: the first ones at the peak learning rate."""
        if not any(optimizer is own for own in self.optimizers) or self._steps >= MEASURED_STEPS:
            return
        if not self._before:
            self._remember()
        self._rates = [float(group["lr"]) for group in optimizer.param_groups]
        for group in optimizer.param_groups:
            # A warm-up starts at or near 0, where a step moves nothing. The script's rate is put back after the step.
            group["lr"] = peak_of(group)

    def on_step_end(self, optimizer: Any) -> None:
        """A step was taken."""
        self._is_fresh_backward = True
        if not any(optimizer is own for own in self.optimizers) or self._steps >= MEASURED_STEPS:
            return
        weights = trainable(self).items()
        self._pulled |= {name for name, weight in weights if pulls(weight) and is_felt(optimizer, weight)}
        for group, rate in zip(optimizer.param_groups, self._rates, strict=False):
            group["lr"] = rate
        self._took_step(optimizer)

    def _remember(self) -> None:
        """Keep the weights as they are before the measured steps."""
        self._before, self._frozen = snapshot(self), Frozen(self)
        self._groups = tuple(group_of(own, group) for own in self.optimizers for group in own.param_groups)

    def _took_step(self, optimizer: Any) -> None:
        self._steps += 1
        if self._steps == MEASURED_STEPS:
            self._compare(optimizer)

    def _compare(self, optimizer: Any) -> None:
        self.attempt(StageName.STEP, lambda: self._measure_step(optimizer))

    def _measure_step(self, optimizer: Any) -> None:
        before, frozen = self._before, self._frozen
        outside = self._left_out()
        # A weight that an earlier training of the script updates is not expected to move here.
        pulled = self._pulled - (set(outside_optimizer(self)) - set(outside))
        self.measured(step=step_evidence(self, optimizer, self._groups, before, pulled, outside, frozen, self._steps))
        self._before = {}

    def _left_out(self) -> tuple[str, ...]:
        """Weights in no optimizer: none where the script trains them before this loop, or may do so behind it."""
        if self._state.trains_behind:
            return ()
        earlier = held_by(*self._state.earlier)
        weights = dict(self.model.named_parameters())
        return tuple(name for name in outside_optimizer(self) if id(weights[name]) not in earlier)

    # the end

    def settle(self) -> None:
        """Training was seen; evaluation may follow."""
        self.is_settled = True
        # Before the stages are settled: it has no stage yet if the loop ended within its step.
        self.memory.on_abort()
        self._state.loaders.timed.record(self, self._state.iteration)
        if self._before:
            self._compare(self.optimizers[0])
        self.skip_missing(TRAINING_STAGES, "the loop did not reach it")
        self._send()
        self.starts(StageName.EVALUATION)
        self._settled_at, self._since_settled = time.perf_counter(), Worked.from_now()

    @property
    def settled_for(self) -> float:
        """Seconds since the training was seen, in which the process could work; 0 before."""
        return self._since_settled.seconds() if self.is_settled else 0.0

    @property
    def is_evaluating(self) -> bool:
        """Whether what happens now is evaluation."""
        return self.is_settled

    def on_evaluation_batch(self, loader: Any, batch: Any) -> None:
        """A loader other than that of the training gave a batch."""
        self.evaluation.on_batch(loader, batch)

    def close(self) -> None:
        """Nothing more will be seen."""
        if gpu_answers():
            self._send()
            self.measured(evaluation=self.evaluation.evidence())
        if StageName.EVALUATION not in self.statuses:
            if self.evaluation.is_seen:
                self.record(Stage.passed(StageName.EVALUATION, time.perf_counter() - self._settled_at))
            else:
                self.skip(StageName.EVALUATION, self._state.bounds.why_no_evaluation())
        if self._first_batch is not None:
            self._first_batch.overfit()
        self.measured(ended_in=statement_now(self.session.script))
        self.finish()

    def on_error(self, error: BaseException, stage: StageName, batch: int = 0) -> None:
        """The script ended in a stage, at a batch of the loop; those after it are not reached."""
        self.evaluation.flush()
        # The stage passed with an earlier batch. What it measured there stays, and its result is that of the last one.
        if batch and stage in self.statuses and stage in TRAINING_STAGES:
            self.about = f"batch {batch}"
        elif stage is StageName.EVALUATION and not self.evaluation.is_seen and not self._state.passes.waiting:
            self.about = AFTER_TRAINING
        self.record_failure(stage, error)
        self.skip_missing(AFTER_DATASET, f"the {stage} stage failed")

    def _send(self) -> None:
        described = self._described or DescribedIteration(self._first or self._state.iteration)
        loop = loop_evidence(self._state, described, self._reached, self._terms, self._counts())
        self.measured(loop=loop, odd_calls=self._state.odd_calls.evidence())

    def _counts(self) -> dict[str, int]:
        return dict(self._state.effects.counts)
