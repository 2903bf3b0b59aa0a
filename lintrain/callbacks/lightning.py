"""A callback for Lightning's Trainer that watches the first steps of a run."""

from __future__ import annotations

from typing import Any

from lintrain.callbacks.watching import WatchingCallback
from lintrain.doctor.record import Role, role_of
from lintrain.evidence.fields import EvidenceFields
from lintrain.runtime.child.library import library, loaded
from lintrain.runtime.child.saved_batch import size_of
from lintrain.runtime.frameworks.lightning.facts import RECORDED
from lintrain.runtime.frameworks.lightning.lightning_patches import LIBRARIES
from lintrain.runtime.in_process.first_steps import FirstSteps, bare

Scalar = str | int | float | bool | None


def _callback_class() -> Any:
    """The base class of the library that the program has imported, under one of its two names."""
    name = next((name for name in LIBRARIES if loaded(name) is not None), LIBRARIES[0])
    return library(f"{name}.callbacks.callback").Callback


_Callback: Any = _callback_class()


class LightningWatch(WatchingCallback, _Callback):  # type: ignore[misc] # the library is read without its types
    """Watches a run: its first `steps` optimizer steps closely, and then all of it.

    Of the first steps (and two more near the peak learning rate if a warm-up is longer) it reads the batch, the loss
    and the gradients, and what the steps change, and judges them by the rules of a probe. If a mistake is confirmed,
    `on_mistake` decides what happens: "raise" raises `lintrain.MistakesError` before the step, "stop" lets the Trainer
    end after it and warns with the report, "warn" only warns. `select` and `ignore` name rules, stages or signs.
    `report` is set from the first judgement on.

    Afterwards it looks for signs of a mistake in the losses, steps and evaluations, unless `to_end` is False. Errors
    are treated as `on_mistake` says, other signs are warnings, once per kind; all are in `run_report`. A batch whose
    loss is not finite is kept in a file of the Trainer's root folder.

    Losses and weights are the same with and without it. While it compares, it keeps the first 4096 entries of every
    weight.
    """

    _batch: tuple[Any, Any] = (None, None)
    _losses = 0

    def on_train_start(self, trainer: Any, module: Any) -> None:
        """Register the hooks on the module."""

        def make(session: Any, location: Any) -> FirstSteps:
            run = FirstSteps(session, location, module, _loader_of(trainer))
            run.is_stepped_by(*(bare(each) for each in trainer.optimizers))
            run.limit = trainer.gradient_clip_val or None
            return run

        given = {name: getattr(trainer, name, None) for name in RECORDED}
        arguments: dict[str, Scalar] = {name: value for name, value in given.items() if isinstance(value, Scalar)}
        arguments["fp16"] = str(trainer.precision).startswith("16")
        facts: EvidenceFields = {
            "framework": "lightning",
            "trainer": "Trainer",
            "device": str(module.device),
            "arguments": arguments,
        }
        self._watching.begin(make, facts, loader=_loader_of(trainer), folder=trainer.default_root_dir)

    def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, batch_idx: int) -> None:
        """A batch is about to be passed to the module."""
        self._batch = (batch, self._watching.rows_of(size_of(batch)))
        self._losses = 0
        if self._watching.run is not None:
            self._watching.run.on_batch(batch)

    def on_before_backward(self, trainer: Any, module: Any, loss: Any) -> None:
        """The loss is computed, divided by the number of batches in a step."""
        scale = trainer.accumulate_grad_batches
        if self._watching.run is not None:
            self._watching.run.on_loss(loss.detach() * scale, None)
        step, number, self._losses = trainer.global_step + 1, self._losses, self._losses + 1
        self._watching.follow(loss, *self._batch, step=step, scale=scale, number=number)

    def on_validation_end(self, trainer: Any, module: Any) -> None:
        """An evaluation was made: its loss is among the metrics if the module logs it."""
        if trainer.sanity_checking:
            return
        found = [float(value) for name, value in trainer.callback_metrics.items() if role_of(name) is Role.EVAL_LOSS]
        if found:
            self._watching.evaluated(found[0])

    def on_before_optimizer_step(self, trainer: Any, module: Any, optimizer: Any) -> None:
        """The gradients are complete; raises MistakesError before the weights are changed."""
        if self._watching.run is None:
            return
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        self._watching.run.before_step(float(scaler.get_scale()) if scaler is not None else 1.0)
        if self._watching.is_worth_judging() and self._watching.judge():
            trainer.should_stop = True

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """A batch was trained on; after the last watched step, everything is judged."""
        self._batch = (None, None)
        run = self._watching.run
        trainer.should_stop = trainer.should_stop or self._watching.reporting.should_stop
        if run is None or trainer.global_step == run.seen:
            return
        run.seen = trainer.global_step
        run.after_step(was_skipped=False)
        if run.is_over(self._watching.wanted) and self._watching.finish():
            trainer.should_stop = True

    def on_train_end(self, trainer: Any, module: Any) -> None:
        """The run is over: judge what was not judged yet."""
        self._watching.conclude()

    def on_exception(self, trainer: Any, module: Any, exception: BaseException) -> None:
        """The run ended with an error: remove the hooks from the module."""
        self._watching.close()


def _loader_of(trainer: Any) -> Any:
    loaders: Any = trainer.train_dataloader
    return loaders if hasattr(loaders, "dataset") else None
