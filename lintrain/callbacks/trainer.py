"""A callback for transformers' Trainer that watches the first steps of a run."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any

from lintrain.api.report import MistakesError
from lintrain.callbacks.watching import WatchingCallback
from lintrain.doctor.record import number_of
from lintrain.evidence.fields import EvidenceFields
from lintrain.runtime.child.library import attribute, has, is_row, library
from lintrain.runtime.child.saved_batch import size_of
from lintrain.runtime.frameworks.trainer.setup import argument_values
from lintrain.runtime.in_process.first_steps import FirstSteps, bare
from lintrain.runtime.in_process.parts import NoLossError, own_loss

_Callback: Any = library("transformers.trainer_callback").TrainerCallback


class TrainerWatch(WatchingCallback, _Callback):  # type: ignore[misc] # the library is read without its types
    """Watches a run: its first `steps` optimizer steps closely, and then all of it.

    Of the first steps (and two more near the peak learning rate if a warm-up is longer) it reads the batch, the loss
    and the gradients, and what the steps change, and judges them by the rules of a probe. If a mistake is confirmed,
    `on_mistake` decides what happens: "raise" raises `lintrain.MistakesError` before the step, "stop" lets the Trainer
    end after it and warns with the report, "warn" only warns. `select` and `ignore` name rules, stages or signs.
    `report` is set from the first judgement on.

    Afterwards it looks for signs of a mistake in the losses, steps and evaluations, unless `to_end` is False. Errors
    are treated as `on_mistake` says, other signs are warnings, once per kind; all are in `run_report`. A batch whose
    loss is not finite is kept in a file of the output folder.

    Losses and weights are the same with and without it. While it compares, it keeps the first 4096 entries of every
    weight.
    """

    _hook: Any = None
    _trainer: Any = None
    _pass: tuple[Any, Any, Any] | None = None
    """What the last pass in training gave, its batch and its rows, until the trainer has computed the loss."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Register the hooks on the model."""
        model, optimizer = given["model"], given.get("optimizer")

        def make(session: Any, location: Any) -> FirstSteps:
            run = FirstSteps(session, location, model, given.get("train_dataloader"))
            run.is_stepped_by(*(() if optimizer is None else (bare(optimizer),)))
            run.limit = float(args.max_grad_norm) if args.max_grad_norm else None
            run.holders = ((_Holder(given.get("processing_class")), "tokenizer"),)
            return run

        facts: EvidenceFields = {"framework": "transformers", "trainer": "Trainer", "device": str(args.device)}
        facts["arguments"] = argument_values(args)
        self._release()
        self._watching.begin(make, facts, loader=given.get("train_dataloader"), folder=args.output_dir or "")
        if not getattr(args, "torch_compile", False):  # a hook would split its graph
            self._hook = model.register_forward_hook(functools.partial(self._on_pass, state), with_kwargs=True)
            self._follow_computed_losses(state)

    def _follow_computed_losses(self, state: Any) -> None:
        """See the losses that the trainer computes: what a model gives is another one where TRL trains on pairs."""
        trainer = _trainer_above()
        if trainer is None:
            return
        original = trainer.compute_loss

        @functools.wraps(original)
        def compute_loss(*given: Any, **named: Any) -> Any:
            self._pass = None
            result = original(*given, **named)
            seen = self._take_pass()
            loss = result[0] if is_row(result) and len(result) > 0 else result
            if seen is not None and attribute(loss, "requires_grad", False):
                self._on_loss(state, loss, *seen)
            return result

        trainer.compute_loss = compute_loss
        self._trainer = trainer

    def _take_pass(self) -> tuple[Any, Any, Any] | None:
        seen, self._pass = self._pass, None
        return seen

    def _release(self) -> None:
        if self._hook is not None:
            self._hook.remove()
        if self._trainer is not None:
            self._trainer.__dict__.pop("compute_loss", None)
        self._hook = self._trainer = None

    def _on_pass(self, state: Any, module: Any, args: Any, kwargs: dict[str, Any], output: Any) -> None:
        """The model was called for training: its arguments are the batch, its output may contain the loss."""
        if not module.training:
            return
        run, batch = self._watching.run, kwargs or list(args)
        rows = self._watching.rows_of(size_of(batch))
        if run is not None:
            run.on_batch(batch)
        if self._trainer is not None:
            self._pass = output, batch, rows
            return
        with suppress(NoLossError):  # a trainer that is not known computes the loss from the logits
            self._on_loss(state, own_loss(output), output, batch, rows)

    def _on_loss(self, state: Any, loss: Any, output: Any, batch: Any, rows: Any) -> None:
        run = self._watching.run
        if run is not None:
            run.on_loss(loss, output)
        with self._released_on_error():
            self._watching.follow(loss, batch, rows, step=state.global_step + 1)

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """The gradients are complete; raises MistakesError before the weights are changed."""
        run = self._watching.run
        if run is None:
            return
        scaler = getattr(given.get("optimizer"), "scaler", None)
        run.before_step(float(scaler.get_scale()) if scaler is not None else 1.0)
        if self._watching.is_worth_judging():
            with self._released_on_error():
                self._stops(control, self._watching.judge())

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """A step was taken; after the last watched step, everything is judged."""
        run = self._watching.run
        self._stops(control, self._watching.reporting.should_stop)
        if run is None:
            return
        run.after_step(was_skipped=bool(getattr(given.get("optimizer"), "step_was_skipped", False)))
        if run.is_over(self._watching.wanted):
            with self._released_on_error():
                self._stops(control, self._watching.finish())

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **given: Any) -> None:
        """The Trainer logs: norms, and losses where the model gives none; it logs a loss of 0 in place of NaN."""
        with self._released_on_error():
            self._watching.logged(logs or {}, state.global_step)
        self._stops(control, self._watching.reporting.should_stop)

    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: dict[str, Any] | None = None, **given: Any
    ) -> None:
        """An evaluation was made."""
        if (loss := number_of((metrics or {}).get("eval_loss"))) is not None:
            self._watching.evaluated(loss)

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """The run is over: judge what was not judged yet."""
        self._release()
        self._watching.conclude()

    @contextmanager
    def _released_on_error(self) -> Generator[None]:
        """Leave no hook in the model of a run that is ended here."""
        try:
            yield
        except MistakesError:
            self._release()
            self._watching.close()
            raise

    def _stops(self, control: Any, is_to_stop: bool) -> None:
        control.should_training_stop = control.should_training_stop or is_to_stop


def _trainer_above() -> Any:
    """The Trainer whose call this is, which callbacks are not given; None for another caller."""
    frame = inspect.currentframe()
    while frame is not None:
        owner = frame.f_locals.get("self")
        if has(owner, "compute_loss") and has(owner, "callback_handler"):
            # A loss that was replaced on the object is the script's, and stays.
            return owner if "compute_loss" not in vars(owner) else None
        frame = frame.f_back
    return None


class _Holder:
    """Holds a tokenizer under a name, as trainers do."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
