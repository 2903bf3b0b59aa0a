"""Where the first steps of a script are followed: modules, backward passes, optimizers and the rows of batches.

How often the learning-rate schedules go on in one step of the optimizer, and where they end.
"""

from __future__ import annotations

import functools
from typing import Any

from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.frameworks.loop.loop_state import length_of
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
            if id(schedule) in self._counts
        ]
        self._counts = {id(schedule): schedule.last_epoch for schedule in self.made}
        return {"schedules": stepped} if stepped else {}


def _hook(schedules: Schedules, module: Any) -> None:
    build = module.LRScheduler.__init__

    @functools.wraps(build)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        build(self, *args, **kwargs)
        if all(each is not self for each in schedules.made):
            schedules.made.append(self)

    module.LRScheduler.__init__ = init
