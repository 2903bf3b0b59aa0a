"""How often the learning-rate schedules go on in one step of the optimizer, and where they end."""

from __future__ import annotations

import functools
from typing import Any

from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.frameworks.loop.schedules import length_of
from lintrain.runtime.timeline.facts import ScheduleFacts, TimelineFacts
from lintrain.runtime.timeline.follower import Follower


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
