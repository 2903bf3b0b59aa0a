"""A run in a loop of the script's own: its evidence, stage by stage, from what the watch hands over."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

from lintrain.evidence.run import OptimizerGroup, ReachedWeights, Stage
from lintrain.model.location import Location
from lintrain.runtime.child.given import Given
from lintrain.runtime.child.label_conflicts import of_training
from lintrain.runtime.child.run import Run
from lintrain.runtime.child.session import Session
from lintrain.runtime.frameworks.loop.account import loop_evidence
from lintrain.runtime.frameworks.loop.asking import birth_of, responses_of
from lintrain.runtime.frameworks.loop.evaluation import FollowedEvaluation
from lintrain.runtime.frameworks.loop.facts import framework, group_of, peak_of
from lintrain.runtime.frameworks.loop.forward import forward_evidence, step_evidence
from lintrain.runtime.frameworks.loop.leaves import reached_weights
from lintrain.runtime.frameworks.loop.memory import CountedStep
from lintrain.runtime.frameworks.loop.model import batch_of, held_by, is_about, output_of, trained_module
from lintrain.runtime.frameworks.loop.overfit import FirstBatch
from lintrain.runtime.frameworks.loop.seen import Iteration, LossCall
from lintrain.runtime.frameworks.loop.standard_loss import standard_loss
from lintrain.runtime.frameworks.loop.surroundings import statement_now
from lintrain.runtime.measure.batch import describe
from lintrain.runtime.measure.births import Birth, GradientBirths
from lintrain.runtime.measure.columns import measure_split
from lintrain.runtime.measure.gradients import Gradients, backward_evidence
from lintrain.runtime.measure.model import measure_model
from lintrain.runtime.measure.outputs import number, shape_of
from lintrain.runtime.measure.subset import number_of_rows
from lintrain.runtime.measure.tokenizer import measure_tokenizer
from lintrain.runtime.measure.updates import Frozen
from lintrain.runtime.measure.weights import is_felt, pulls, snapshot, trainable

if TYPE_CHECKING:
    from lintrain.runtime.frameworks.loop.watch import Watch

MEASURED_STEPS = 2
"""Steps that are taken at the peak learning rate and compared."""
STAGES = ("batch", "forward", "backward", "step")


class LoopRun(Run):
    """What a loop shows; `limit` is the norm that it clips gradients to."""

    def __init__(self, session: Session, call: Location | None, watch: Watch) -> None:
        super().__init__(session, call)
        self.limit: float | None = None
        self.is_settled = False
        self._watch = watch
        self.memory = CountedStep(self, watch)
        self._model: Any = None
        self._loader: Any = None
        self._gradients: Gradients | None = None
        self._is_fresh_backward = self._is_own_loss = True
        self._before: dict[str, Any] = {}
        self._pulled: set[str] = set()
        self._groups: tuple[OptimizerGroup, ...] = ()
        self._rates: list[float] = []
        self._steps = 0
        self._first: Iteration | None = None
        self._frozen: Frozen | None = None
        self._birth: Birth | None = None
        self._births = GradientBirths()
        self._loss: LossCall | None = None
        self._reached: ReachedWeights | None = None
        self.evaluation = FollowedEvaluation(self, watch)
        self._splits: list[Any] = []
        self._first_batch: FirstBatch | None = None

    @property
    def model(self) -> Any:
        """The module that was called and that the optimizer trains."""
        return self._model

    @property
    def loader(self) -> Any:
        """The loader that the loop trains on; None where it has none."""
        return self._loader

    @property
    def collator(self) -> Any:
        """The loader's `collate_fn`."""
        return getattr(self._loader, "collate_fn", None)

    @property
    def optimizers(self) -> tuple[Any, ...]:
        """Those that hold a parameter of the model."""
        own = {id(weight) for weight in self.model.parameters()}
        return tuple(optimizer for optimizer in self._watch.optimizers if own & held_by(optimizer))

    @property
    def clipped_at(self) -> float | None:
        """The norm that the script clips to."""
        return self.limit

    # stages

    def enter(self, loader: Any, iteration: Iteration, *, loss: Any = None, failed: str = "") -> None:
        """The loop was reached: say so, and look at its data; `failed` names the stage that the script ended in."""
        self._loader = loader
        self._model = trained_module(iteration, self._watch.optimizers, loss)
        self._first_batch = FirstBatch(self, self._watch) if self.session.overfit else None
        self.session.channel.send("run", run=0, values=self._facts())
        for name in ("script", "construction"):
            seconds = self.session.elapsed() if name == "script" else 0.0
            self.session.channel.send("stage", run=0, stage=Stage(name, "passed", seconds))
        self.attempt("dataset", self._measure_dataset)
        if failed == "batch":
            return
        batch = batch_of(iteration)
        if batch is None:
            self.skip("batch", "the loop takes its batches from no `DataLoader`")
        else:
            self.batches.append(batch)
            self.attempt("batch", self._describe_batch)

    def _facts(self) -> dict[str, Any]:
        return {
            **self.session.facts(),
            "framework": framework(self.session),
            "trainer": "a loop",
            "call": self.call,
            "construction": None,
            "device": str(next((weight.device for weight in self.model.parameters()), "cpu")),
            "arguments": {},
            "shortcuts": self.session.shortcuts,
            "notes": self.session.notes,
        }

    def _measure_dataset(self) -> None:
        self.measured(model=measure_model(self), tokenizer=measure_tokenizer(self))
        self.measure_split("train_dataset", self._loader)
        rows = number_of_rows(getattr(self._loader, "dataset", None))
        self.measured(conflicts=of_training(self.session, rows))

    def measure_split(self, argument: str, loader: Any) -> None:
        """Look at the data of a loader."""
        dataset = getattr(loader, "dataset", None)
        if dataset is not None:
            self._splits.append(measure_split(self, Given(argument, dataset)))
            self.measured(splits=self._splits)

    def _describe_batch(self) -> None:
        self.batch_evidence = [describe(self, "train_dataset", self.batches)]
        self.measured(batches=self.batch_evidence)

    def goes_backward(self, iteration: Iteration, loss: Any) -> None:
        """A loss is there; where several models are trained side by side, the others' are left alone."""
        if self._is_fresh_backward or not self._watch.effects.per_step:
            self._is_own_loss = is_about(loss, self.model, held_by(*self._watch.optimizers))
        if not self._is_own_loss:
            return
        standard = standard_loss(iteration, loss)
        if not self._watch.effects.per_step:  # later ones come from weights that steps at the peak rate have changed
            self.losses.append(
                number(loss) / self._watch.effects.scale if standard is None else number(standard.result)
            )
        if self._first is None:
            self._first = iteration
            self.output_keys, self.logits_shape = shape_of(output_of(iteration, self.model))
            self._loss = standard
            self._reached = self._reached_weights(iteration, loss)
            if self.losses and not math.isfinite(self.losses[0]):
                self._birth = birth_of(self, iteration)
            self.attempt("forward", self._measure_forward)
            self.responses = responses_of(self, iteration, loss)
            self._births.watch(loss, self.model)
            if self._first_batch is not None:
                self._first_batch.keep(iteration, loss)

    def _reached_weights(self, iteration: Iteration, loss: Any) -> ReachedWeights | None:
        known = {id(weight) for forward in iteration.forwards for weight in forward.module.parameters()}
        return reached_weights(loss, held_by(*self._watch.optimizers), known)

    def _measure_forward(self) -> None:
        self.measured(forward=forward_evidence(self, self._birth, self._loss))

    def went_backward(self) -> None:
        """Gradients are there: those of the first batch since a step are read."""
        self._births.close()
        if self._gradients is None:
            self._gradients = Gradients(self)
        if not self._is_fresh_backward or not self._is_own_loss:
            return
        self._is_fresh_backward = False
        gradients = self._gradients
        if "backward" not in self.statuses:
            self.attempt("backward", lambda: gradients.read(self._watch.effects.scale, keep=True))
            if self.responses is not None:
                self.responses.measure()
        else:
            gradients.read(self._watch.effects.scale, keep=True)
        gradients.birth = self._births.found
        self._measure_forward()
        self.measured(backward=backward_evidence(self, gradients))

    def steps(self, optimizer: Any) -> None:
        """A step is about to be taken: the first ones at the peak learning rate."""
        if not any(optimizer is own for own in self.optimizers) or self._steps >= MEASURED_STEPS:
            return
        if not self._before:
            self._remember()
        self._rates = [float(group["lr"]) for group in optimizer.param_groups]
        for group in optimizer.param_groups:
            group["lr"] = peak_of(group)

    def stepped(self, optimizer: Any) -> None:
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
        self._groups = tuple(group_of(group) for own in self.optimizers for group in own.param_groups)

    def _took_step(self, optimizer: Any) -> None:
        self._steps += 1
        if self._steps == MEASURED_STEPS:
            self._compare(optimizer)

    def _compare(self, optimizer: Any) -> None:
        self.attempt("step", lambda: self._measure_step(optimizer))

    def _measure_step(self, optimizer: Any) -> None:
        before, frozen = self._before, self._frozen
        self.measured(step=step_evidence(self, optimizer, self._groups, before, self._pulled, frozen, self._steps))
        self._before = {}

    # the end

    def settle(self) -> None:
        """Training was seen; evaluation may follow."""
        self.is_settled = True
        self.memory.gives_up()
        self._watch.loaders.timed.settles(self, self._watch.iteration)
        if self._before:
            self._compare(self.optimizers[0])
        for name in STAGES:
            if name not in self.statuses:
                self.skip(name, "the loop did not come to it")
        self._send()
        self.session.channel.send("stage-started", run=0, stage="evaluation")
        self._settled_at = time.perf_counter()

    @property
    def is_evaluating(self) -> bool:
        """Whether what happens now is evaluation."""
        return self.is_settled

    def takes_evaluation_batch(self, loader: Any, batch: Any) -> None:
        """A loader other than that of the training gave a batch."""
        self.evaluation.takes(loader, batch)

    def close(self) -> None:
        """Nothing more will be seen."""
        self._send()
        self.measured(evaluation=self.evaluation.evidence())
        if "evaluation" not in self.statuses:
            if self.evaluation.is_seen:
                self.settles(Stage("evaluation", "passed", time.perf_counter() - self._settled_at))
            else:
                self.skip("evaluation", self._watch.bounds.why_no_evaluation())
        if self._first_batch is not None:
            self._first_batch.learn()
        ended_in = statement_now(self.session.script)
        self.measured(ended_in=ended_in, shortcuts=self.session.shortcuts, notes=self.session.notes)

    def crashed(self, error: BaseException, stage: str) -> None:
        """The script ended in a stage; those after it are not reached."""
        if stage in self.statuses:  # it went through before: the next one fails
            stage = next((name for name in (*STAGES, "evaluation") if name not in self.statuses), stage)
        self.fails(stage, error)
        for name in (*STAGES, "evaluation"):
            if name not in self.statuses:
                self.skip(name, f"the {stage} stage failed")

    def _send(self) -> None:
        iteration = self._first or self._watch.iteration
        self.measured(loop=loop_evidence(self._watch, iteration, self._reached, self._counts()))

    def _counts(self) -> dict[str, int]:
        return dict(self._watch.effects.counts)
