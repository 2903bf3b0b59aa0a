"""A callback for transformers' Trainer that watches the first steps of a run."""

from __future__ import annotations

import functools
from typing import Any

from lintrain.callbacks.watching import Watching, WatchingCallback
from lintrain.evidence.fields import EvidenceFields
from lintrain.runtime.child.library import library
from lintrain.runtime.frameworks.trainer.setup import argument_values
from lintrain.runtime.in_process.first_steps import FirstSteps, bare
from lintrain.runtime.in_process.parts import NoLossError, own_loss

_Callback: Any = library("transformers.trainer_callback").TrainerCallback


class TrainerWatch(WatchingCallback, _Callback):  # type: ignore[misc] # the library is read without its types
    """Watches the first `steps` optimizer steps, and two more near the peak learning rate if a warm-up is longer.

    Reads the batch, the loss and the gradients of each, and what the steps change, and judges them by the rules of a
    probe. If a mistake is confirmed, `on_mistake` decides what happens: "raise" raises `lintrain.MistakesError` before
    the step, "stop" lets the Trainer end after it and warns with the report, "warn" only warns. `select` and `ignore`
    name rules or stages. `report` is set from the first judgement on.

    Losses and weights are the same with and without it. While it compares, it keeps the first 4096 entries of every
    weight.
    """

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
        self._watching.begin(make, facts)
        if self._watching.run is not None and not getattr(args, "torch_compile", False):  # a hook would split its graph
            passes = functools.partial(_passes, self._watching)
            self._watching.run.hooks.append(model.register_forward_hook(passes, with_kwargs=True))

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """The gradients are complete; raises MistakesError before the weights are changed."""
        run = self._watching.run
        if run is None:
            return
        scaler = getattr(given.get("optimizer"), "scaler", None)
        run.before_step(float(scaler.get_scale()) if scaler is not None else 1.0)
        if self._watching.is_worth_judging():
            self._stops(control, self._watching.judge())

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """A step was taken; after the last watched step, everything is judged."""
        run = self._watching.run
        if run is None:
            return
        run.after_step(was_skipped=bool(getattr(given.get("optimizer"), "step_was_skipped", False)))
        if run.is_over(self._watching.wanted):
            self._stops(control, self._watching.finish())

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """The run ended before all steps were watched: judge those that were."""
        self._watching.finish()

    def _stops(self, control: Any, is_to_stop: bool) -> None:
        control.should_training_stop = control.should_training_stop or is_to_stop


class _Holder:
    """Holds a tokenizer under a name, as trainers do."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer


def _passes(watching: Watching, module: Any, args: Any, kwargs: dict[str, Any], output: Any) -> None:
    """The model was called for training: its arguments are the batch, its output may contain the loss."""
    run = watching.run
    if run is None or not module.training:
        return
    run.on_batch(kwargs or list(args))
    try:
        run.on_loss(own_loss(output), output)
    except NoLossError:  # the trainer computes the loss from the logits
        return
