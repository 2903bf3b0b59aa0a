"""Whether the processes of a training are joined, and what makes their weights differ on purpose."""

from __future__ import annotations

import functools
from typing import Any

from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.library import loaded
from lintrain.runtime.timeline.facts import TimelineFacts
from lintrain.runtime.timeline.follower import Follower

AVERAGING = {
    "accelerate.local_sgd": "LocalSGD",
    "torch.distributed.algorithms.model_averaging.averagers": "ModelAverager",
}
"""Classes whose objects average the weights of all processes now and then (accelerate 1.15, torch 2.13)."""

SHARDED = ("FullyShardedDataParallel", "FSDP", "DeepSpeedEngine", "PipelineStage")


def install(follower: Follower, hooks: AfterImport) -> None:
    """Send with each step what is known by then."""
    replicas = Replicas(follower)
    for module, name in AVERAGING.items():
        hooks.add(module, functools.partial(replicas.notice, name))
    follower.more_facts.append(replicas.facts)


class Replicas:
    """What the script uses that keeps the weights of its processes apart."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._averaged_by = ""

    def notice(self, name: str, module: Any) -> None:
        """Remember when an object of a class is made."""
        owner = getattr(module, name)
        build = owner.__init__

        @functools.wraps(build)
        def init(*args: Any, **kwargs: Any) -> None:
            self._averaged_by = name
            build(*args, **kwargs)

        owner.__init__ = init

    def facts(self) -> TimelineFacts:
        """How many processes have joined, and by what their weights may differ."""
        distributed = loaded("torch.distributed")
        is_joined = distributed is not None and distributed.is_available() and distributed.is_initialized()
        size = distributed.get_world_size() if distributed is not None and is_joined else 1
        return {"joined": size, "keeps_apart": self._averaged_by or self._sharded()}

    def _sharded(self) -> str:
        for root in self._follower.roots:
            kinds = {base.__name__ for part in root.modules() for base in type(part).__mro__}
            if found := kinds & {*SHARDED}:
                return min(found)
            if any(hasattr(weight, "placements") for weight in root.parameters()):
                return "DTensor"
        return ""
