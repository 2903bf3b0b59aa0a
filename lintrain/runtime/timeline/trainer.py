"""A Trainer of transformers that trains a few real steps: it saves after two of them, or resumes from what it
saved.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.timeline.follower import Follower

SAVE_STEPS = 2


def install(follower: Follower, hooks: AfterImport) -> None:
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
