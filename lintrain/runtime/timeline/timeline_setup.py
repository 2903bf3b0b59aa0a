"""Set a pass up that follows the first steps: nothing is measured, the libraries run by themselves.

A Trainer of transformers that trains a few real steps: it saves after two of them, or resumes from what it
saved.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.probe_session import ProbeSession
from lintrain.runtime.timeline import ranks, rounds, step_hooks
from lintrain.runtime.timeline.follower import Follower
from lintrain.runtime.timeline.step_hooks import hook_torch

SAVED_AFTER = 2
"""Steps before a checkpoint; one more follows it."""


def install(session: ProbeSession, hooks: AfterImport, request: dict[str, Any]) -> None:
    """Follow; the interceptors of measurements let everything pass."""
    # Before the interceptors can see a call: `measuring` makes them pass everything through.
    session.measuring = True
    if not session.is_root or ranks.is_launcher(request):
        return
    follower = Follower(session, request["purpose"], request["steps"], request["checkpoint"])
    hook_torch(follower, hooks)
    _follow_trainer(follower, hooks)
    step_hooks.install_in_lightning(follower, hooks)
    session.timeline = follower
    if follower.purpose == "ranks":
        ranks.install(follower, hooks)
        ranks.watch_replicas(follower, hooks)
        step_hooks.install(follower, hooks)
        rounds.install(follower, hooks, steps=follower.wanted, gathers=ranks.install_gathers(follower, hooks))
    if follower.purpose == "save":
        rounds.install(follower, hooks, steps=SAVED_AFTER)


SAVE_STEPS = 2


def _follow_trainer(follower: Follower, hooks: AfterImport) -> None:
    """Change `train` as soon as the script imports it."""
    hooks.add("transformers.trainer", lambda module: _patch(follower, module.Trainer))


def _patch(follower: Follower, trainer: Any) -> None:
    original = trainer.train

    @functools.wraps(original)
    def train(self: Any, resume_from_checkpoint: Any = None, *args: Any, **kwargs: Any) -> Any:
        follower.is_guided = True
        follower.report(framework="transformers", resume_is_asked=bool(resume_from_checkpoint))
        _without_evaluation(self.args)
        if follower.purpose == "save":
            _save_soon(follower, self.args)
        goes_on_from = follower.checkpoint if follower.purpose == "resume" else None
        return original(self, goes_on_from, *args, **kwargs)

    trainer.train = train


def _without_evaluation(arguments: Any) -> None:
    # Only training steps are compared, and an evaluation takes time.
    arguments.eval_delay = math.inf
    arguments.dataloader_num_workers = 0
    arguments.dataloader_persistent_workers = False
    arguments.dataloader_prefetch_factor = None
    if hasattr(arguments, "eval_on_start"):
        arguments.eval_on_start = False


def _save_soon(follower: Follower, arguments: Any) -> None:
    """Save as the run would, only sooner; a run that never saves has nothing to resume from."""
    asked = getattr(arguments, "lintrain_asked", {}).get("save_strategy")
    if str(getattr(asked, "value", asked)) == "no":
        follower.stop('the run saves no checkpoint: its `save_strategy` is "no"')
    arguments.save_strategy = type(arguments.save_strategy)("steps")
    arguments.save_steps = SAVE_STEPS
    follower.report(checkpoint=f"{arguments.output_dir}/checkpoint-{SAVE_STEPS}")
