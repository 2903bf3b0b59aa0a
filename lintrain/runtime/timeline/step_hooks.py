"""Where the first steps of a script are followed: modules, backward passes, optimizers, rows of batches, the schedules
of learning rates, and a Trainer of Lightning that trains two batches, saves, and continues.
"""

from __future__ import annotations

import functools
import inspect
import os
from typing import Any

from lintrain.runtime.child.hooks import AfterImport, replaced
from lintrain.runtime.child.library import library
from lintrain.runtime.frameworks.lightning.lightning_patches import LIBRARIES
from lintrain.runtime.frameworks.lightning.quiet import (
    package_of,
    redirect_checkpoints,
    shorten_evaluation,
    validate_at_the_end,
    without_finders,
)
from lintrain.runtime.frameworks.loop.schedules import length_of
from lintrain.runtime.timeline.facts import ScheduleFacts, TimelineFacts
from lintrain.runtime.timeline.follower import Follower


def hook_torch(follower: Follower, hooks: AfterImport) -> None:
    """Let the follower see what passes through torch."""
    hooks.add("torch.nn.modules.module", functools.partial(_hook_modules, follower))
    hooks.add("torch._tensor", functools.partial(_hook_backward, follower))
    hooks.add("torch.optim.optimizer", functools.partial(_hook_optimizers, follower))
    hooks.add("torch.amp.grad_scaler", functools.partial(_hook_scalers, follower))
    hooks.add("torch.utils.data._utils.fetch", functools.partial(_hook_rows, follower))


def _hook_modules(follower: Follower, module: Any) -> None:
    # Only the outermost call is a forward pass: layers are modules too, and a model calls hundreds of them.
    call = module.Module.__call__
    depth = 0

    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal depth
        if not depth:
            follower.on_forward(self, args, kwargs)
        depth += 1
        try:
            return call(self, *args, **kwargs)
        finally:
            depth -= 1

    module.Module.__call__ = called


def _hook_backward(follower: Follower, module: Any) -> None:
    backward = module.Tensor.backward

    @functools.wraps(backward)
    def followed(self: Any, *args: Any, **kwargs: Any) -> Any:
        follower.on_backward_start(self)
        return backward(self, *args, **kwargs)

    module.Tensor.backward = followed


def _hook_optimizers(follower: Follower, module: Any) -> None:
    build = module.Optimizer.__init__

    @functools.wraps(build)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        build(self, *args, **kwargs)
        follower.on_optimizer(self)

    module.Optimizer.__init__ = init
    # torch wraps `step` of every subclass to run these hooks, so an optimizer of the script's own is seen too.
    module.register_optimizer_step_post_hook(follower.on_step_end)


def _hook_scalers(follower: Follower, module: Any) -> None:
    build, scale = module.GradScaler.__init__, module.GradScaler.scale

    @functools.wraps(build)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        build(self, *args, **kwargs)
        follower.on_scaler(self)

    @functools.wraps(scale)
    def scaled(self: Any, *args: Any, **kwargs: Any) -> Any:
        follower.on_scaling(self)
        return scale(self, *args, **kwargs)

    module.GradScaler.__init__, module.GradScaler.scale = init, scaled


def _hook_rows(follower: Follower, module: Any) -> None:
    # Below the loader, where the indices of a batch are still known; workers have a fetcher of their own.
    fetcher = module._MapDatasetFetcher
    fetch = fetcher.fetch

    @functools.wraps(fetch)
    def followed(self: Any, possibly_batched_index: Any) -> Any:
        batch = fetch(self, possibly_batched_index)
        follower.rows.fetched(possibly_batched_index, batch)
        return batch

    fetcher.fetch = followed


def install(follower: Follower, hooks: AfterImport) -> None:
    """Follow the schedules that the script makes."""
    schedules = Schedules()
    hooks.add("torch.optim.lr_scheduler", functools.partial(_hook, schedules))
    follower.more_facts.append(schedules.facts)


class Schedules:
    """Those that were made, each with its count of steps when the optimizer stepped last."""

    def __init__(self) -> None:
        self.made: list[Any] = []
        self._counts: dict[int, int] = {}

    def facts(self) -> TimelineFacts:
        """The steps of each since the last call: nothing at the first one."""
        stepped = [
            ScheduleFacts(
                name=type(schedule).__name__,
                steps_per_update=schedule.last_epoch - self._counts[id(schedule)],
                length=length_of(schedule),
            )
            for schedule in self.made
            # One that was made since the last call has no count to compare with.
            if id(schedule) in self._counts
        ]
        self._counts = {id(schedule): schedule.last_epoch for schedule in self.made}
        return {"schedules": stepped} if stepped else {}


def _hook(schedules: Schedules, module: Any) -> None:
    build = module.LRScheduler.__init__

    @functools.wraps(build)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        build(self, *args, **kwargs)
        # A subclass with a constructor of its own may call that of its base twice.
        if all(each is not self for each in schedules.made):
            schedules.made.append(self)

    module.LRScheduler.__init__ = init


SAVED_AFTER = 2
NAME = "lintrain.ckpt"


def install_in_lightning(follower: Follower, hooks: AfterImport) -> None:
    """Change `fit` as soon as the script imports it, under both names of the library."""
    for name in LIBRARIES:
        hooks.add(f"{name}.trainer.trainer", lambda module: _patch(follower, module.Trainer))


def _patch(follower: Follower, trainer: Any) -> None:
    original = trainer.fit
    signature = inspect.signature(original)

    @functools.wraps(original)
    def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            given = dict(signature.bind(self, *args, **kwargs).arguments)
        except TypeError:
            return original(self, *args, **kwargs)  # Lightning says what is wrong with the call
        follower.is_guided = True
        follower.report(framework="lightning", resume_is_asked=bool(given.get("ckpt_path")))
        # What the script resumes from itself is an older run, which has nothing to do with the one that is compared.
        given["ckpt_path"] = follower.checkpoint if follower.purpose == "resume" else None
        _prepare(follower, self)
        return original(**given)

    trainer.fit = fit


def _prepare(follower: Follower, trainer: Any) -> None:
    if follower.purpose == "save" and not trainer.checkpoint_callbacks:
        follower.stop("the run saves no checkpoint: its Trainer has no callback for that")
    without_finders(follower.session, trainer)
    # Kept before it is replaced: the library's own checkpoints become empty files, and this one is real.
    save = trainer.strategy.save_checkpoint
    redirect_checkpoints(follower.session, trainer)
    trainer._run_sanity_check = functools.partial(_shorten, follower, trainer)
    if follower.purpose == "save":
        callback = library(f"{package_of(trainer)}.callbacks.callback").Callback
        trainer.callbacks.append(type("Saver", (Saver, callback), {})(follower, save))


def _shorten(follower: Follower, trainer: Any) -> None:
    """Instead of the sanity check: the data is set up first, so that the run is planned with its full length."""
    if follower.purpose not in ("save", "resume"):
        return
    loop = trainer.fit_loop
    loop.setup_data()
    loop.max_batches = min(loop.max_batches, SAVED_AFTER * trainer.accumulate_grad_batches)
    if loop.max_epochs != -1:
        # The epoch that is saved has to be followed by another one, or the resumed run would have nothing left to do.
        loop.max_epochs = max(loop.max_epochs or 0, 2)
    shorten_evaluation(follower.session, loop.epoch_loop.val_loop)
    validate_at_the_end(trainer)


class Saver:
    """The last of the callbacks: at the end of the first epoch, where Lightning's own saves too."""

    def __init__(self, follower: Follower, save: Any) -> None:
        self.follower = follower
        self.save = save

    def on_train_epoch_end(self, trainer: Any, *_: Any) -> None:
        """Save as the library does."""
        if trainer.current_epoch == 0:
            path = os.path.join(self.follower.session.folder("output"), NAME)
            with replaced(trainer.strategy, save_checkpoint=self.save):
                trainer.save_checkpoint(path)
            self.follower.report(checkpoint=path)
