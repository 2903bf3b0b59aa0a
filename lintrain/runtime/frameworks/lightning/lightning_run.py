"""A run of Lightning: the evidence of a loop, and what its module and its Trainer know."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from typing import Any

from lintrain.evidence.fields import EvidenceFields
from lintrain.evidence.run import ScheduleEvidence, Stage, StageName
from lintrain.evidence.stages import TRAINING_STAGES
from lintrain.model.location import Location
from lintrain.runtime.child.frames import failure_of
from lintrain.runtime.child.library import attribute, has
from lintrain.runtime.child.probe_session import ProbeSession
from lintrain.runtime.frameworks.lightning.facts import (
    Scalar,
    given_arguments,
    logged_names,
    planned,
    planned_epochs,
    planned_steps,
    root_device,
)
from lintrain.runtime.frameworks.loop.loop_run import AFTER_DATASET, MEASURED_STEPS, LoopRun
from lintrain.runtime.frameworks.loop.loop_state import LoopState
from lintrain.runtime.frameworks.loop.metrics import MetricUses
from lintrain.runtime.measure.gradients import Gradients
from lintrain.runtime.measure.held_values import last_return
from lintrain.runtime.measure.model import measure_model
from lintrain.runtime.measure.objects.origins import locations_of
from lintrain.runtime.measure.seen import Iteration
from lintrain.runtime.measure.tokenizer import find_tokenizer
from lintrain.runtime.measure.weights import played_through


class LightningRun(LoopRun):
    """The module, its Trainer and what one stage leaves for the next.

    `first_weights` are those before the first step, kept only if a batch is overfitted.

    Lightning reports where a batch begins and ends, so steps are compared over whole batches: an optimizer's closure
    makes the gradients inside of the step, and several optimizers take turns in one batch.
    """

    def __init__(
        self,
        session: ProbeSession,
        trainer: Any,
        module: Any,
        call: Location | None,
        state: LoopState,
        metrics: MetricUses,
    ) -> None:
        super().__init__(session, call, state, metrics)
        self.trainer = trainer
        self.module = module
        # With a checkpoint inside, names, labels and positions come from the model of transformers, not
        # from the shell around it.
        self._model = module if (part := pretrained_part(module)) is None else part
        self._arguments: dict[str, Scalar] = given_arguments(trainer)
        self._taken: Counter[int] = Counter()
        self.first_weights: dict[str, Any] = {}

    @property
    def optimizers(self) -> tuple[Any, ...]:
        """Those that `configure_optimizers` gave."""
        return tuple(self.trainer.optimizers)

    def start(self) -> None:
        """The call was reached."""
        facts: EvidenceFields = {
            **self._facts(),
            "framework": "lightning",
            "trainer": type(self.trainer).__name__,
            "construction": self.trainer.__dict__.get("lintrain_construction"),
            "device": root_device(self.trainer),
            "arguments": self._arguments,
            "locations": self._locations(),
        }
        self.report_run(**facts)
        self.record(Stage.passed(StageName.SCRIPT, self.session.elapsed()))

    def _locations(self) -> dict[str, Location]:
        callbacks: list[Any] = list(self.trainer.callbacks)
        # By the name of the class: both packages have their own, and a script may derive one.
        stopping = next((each for each in callbacks if "EarlyStopping" in type(each).__name__), None)
        keeping = next((each for each in callbacks if attribute(each, "monitor", None) and each is not stopping), None)
        made = {"stopping": stopping, "keeping": keeping}
        return locations_of(self.session.origins, self.model, find_tokenizer(self), **made)

    def on_construction(self) -> None:
        """Module and optimizers are constructed."""
        self.record(Stage.passed(StageName.CONSTRUCTION))

    def on_loaders(self, loaders: list[Any]) -> None:
        """The loaders of training are there, and the run is not shortened yet."""
        self.loader = next(iter(loaders), None)
        # Now, for shortening the run changes the planned batches and steps.
        self._arguments.update(planned(self.trainer))
        self.measured(arguments=self._arguments)
        if (location := last_return(self.trainer.lightning_module.configure_optimizers)) is not None:
            self._state.effects.counts.first_at["configured"] = location
        with self._state.paused():
            self.attempt(StageName.DATASET, self._measure_dataset)
            self._play_schedule()

    def _play_schedule(self) -> None:
        """Simulate the schedule; a class of the script's own may not support being copied."""
        steps, epochs = planned_steps(self.trainer), planned_epochs(self.trainer)
        for configured in self.trainer.lr_scheduler_configs[:1]:
            try:
                self.measured(schedule=schedule_evidence(configured, steps, epochs))
            except Exception as error:  # noqa: BLE001 - the schedule itself works, or the run will fail
                self.session.note(f"the schedule was not simulated: {type(error).__name__}: {error}")

    def on_evaluation_loaders(self, loaders: list[Any]) -> None:
        """The loaders of a call that only evaluates are there."""
        self.loader = next(iter(loaders), None)
        with self._state.paused():
            self.attempt(StageName.DATASET, lambda: self.measured(model=measure_model(self)))

    def on_evaluation_only(self) -> None:
        """There is no training before it."""
        self.is_settled, self._settled_at = True, time.perf_counter()

    @property
    def peak_rates(self) -> list[float]:
        """The peak learning rate of each parameter group."""
        return [group.learning_rate for group in self._groups]

    # training

    def on_batch_start(self, batch: Any) -> None:
        """A batch is about to be trained on: the first one is described, and the weights before it are kept."""
        if len(self.batches) < MEASURED_STEPS and batch is not None:
            self.batches.append(batch)
        if StageName.BATCH in self.statuses:
            return
        if batch is None:
            self.skip(StageName.BATCH, "`training_step` fetches its own batches")
        else:
            self.attempt(StageName.BATCH, self._describe_batch)
        self._gradients = Gradients(self)
        self._remember()
        self.first_weights = self._before if self.session.overfit else {}

    def on_backward_start(self, iteration: Iteration, loss: Any) -> None:
        """A loss is there; the output is that of the module, or of the last part of it that was called."""
        own = set(self.module.modules())
        # The evidence of a loop looks the output up by the model. Lightning calls `training_step` instead of the
        # module, so no pass is the module's own.
        last = next((each for each in reversed(iteration.forwards) if each.module in own and each.records), None)
        if last is not None:
            last.module = self._model
        super().on_backward_start(iteration, loss)

    def _took_step(self, optimizer: Any) -> None:
        self._taken[id(optimizer)] += 1

    def on_batch_end(self) -> None:
        """A batch was trained on: once every optimizer has stepped, the weights are compared."""
        taken = [self._taken[id(optimizer)] for optimizer in self.optimizers]
        # A GAN's optimizers alternate: comparing after the first one's steps would report the other's weights as
        # unchanged.
        if self._before and taken and min(taken) >= MEASURED_STEPS:
            self._steps = MEASURED_STEPS
            self._compare(self.optimizers[0])

    def settle(self) -> None:
        """Training was measured; if nothing stepped, there are no weights to compare."""
        # Weights that were compared after no step would be reported as frozen.
        if not self._taken:
            self._before = {}
        super().settle()

    def _counts(self) -> dict[str, int]:
        """Lightning divides every loss by the batches of a step, even by one: this is not a division of the
        script's.
        """
        divided_by = self._arguments.get("accumulate_grad_batches")
        counts = super()._counts()
        # Lightning divides the loss by `accumulate_grad_batches` also where that is 1, and the graph shows a division
        # that the script did not write.
        if divided_by == 1 and self._arguments.get("automatic_optimization"):
            counts["divided_twice"] = 0
        return counts

    @property
    def is_evaluating(self) -> bool:
        """As Lightning reports it, also before the training."""
        return self.is_settled or bool(attribute(self.trainer.state.stage, "evaluating", False))

    # the end

    def on_error(self, error: BaseException, stage: StageName, batch: int = 0) -> None:
        """The call ended in a stage; those after it are not reached."""
        self.about = f"batch {batch}" if batch and stage in self.statuses and stage in TRAINING_STAGES else self.about
        self.record_failure(stage, error)
        self.skip_missing((StageName.CONSTRUCTION, StageName.DATASET, *AFTER_DATASET), f"the {stage} stage failed")

    def close(self) -> None:
        """Nothing more will be seen."""
        self._arguments["logged"] = ", ".join(logged_names(self.trainer))
        self.measured(arguments=self._arguments)
        if StageName.EVALUATION not in self.statuses and not self.evaluation.batches:
            self.skip(StageName.EVALUATION, "no validation data is given, or the module has no step for it")
        super().close()

    def on_construction_error(self, error: BaseException) -> None:
        """The arguments of the call cannot be set up: there is nothing to judge."""
        self.record_failure(StageName.CONSTRUCTION, error)
        failure = failure_of(error, self.call)
        self.session.stop(f"{failure.type}: {failure.message}")


def pretrained_part(module: Any) -> Any:
    """The one model of transformers that holds all parameters of a module; None if there is none."""
    parts = [part for part in module.children() if has(part, "save_pretrained") and has(part, "config")]
    if len(parts) != 1:
        return None
    # A head next to the pretrained part trains too: then the whole module has to be the model, or its
    # weights would be missing.
    inside = {id(weight) for weight in parts[0].parameters()}
    return parts[0] if all(id(weight) in inside for weight in module.parameters()) else None


NESTED = ("_schedulers", "schedulers")


def schedule_evidence(configured: Any, steps: int | None, epochs: int | None) -> ScheduleEvidence | None:
    """The rates by optimizer step; None if the run has no known end, or the schedule drives others or a metric."""
    if steps is None or configured.reduce_on_plateau or any(has(configured.scheduler, name) for name in NESTED):
        return None
    if configured.interval == "step":
        every = int(configured.frequency)
    elif epochs is None:
        return None
    else:
        every = int(configured.frequency) * max(1, steps // epochs)
    played = played_through(configured.scheduler, -(-steps // every))
    if played is None:
        return None
    rates = tuple((step * every, rate) for step, rate in played.rates)
    return replace(played, steps=steps, rates=rates, highest_at=played.highest_at * every)
