"""A Trainer of Lightning that trains an epoch of two batches, saves, and continues with the next."""

from __future__ import annotations

import functools
import inspect
import os
from typing import Any

from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.library import library
from lintrain.runtime.child.replace import replaced
from lintrain.runtime.frameworks.lightning.lightning_patches import LIBRARIES
from lintrain.runtime.frameworks.lightning.quiet import (
    package_of,
    redirect_checkpoints,
    shorten_evaluation,
    validate_at_the_end,
    without_finders,
)
from lintrain.runtime.timeline.follower import Follower

SAVED_AFTER = 2
NAME = "lintrain.ckpt"


def install(follower: Follower, hooks: AfterImport) -> None:
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
        given["ckpt_path"] = follower.checkpoint if follower.purpose == "resume" else None
        _prepare(follower, self)
        return original(**given)

    trainer.fit = fit


def _prepare(follower: Follower, trainer: Any) -> None:
    if follower.purpose == "save" and not trainer.checkpoint_callbacks:
        follower.stop("the run saves no checkpoint: its Trainer has no callback for that")
    without_finders(follower.session, trainer)
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
