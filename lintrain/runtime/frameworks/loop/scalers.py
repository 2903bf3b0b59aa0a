"""Hooks in the gradient scalers and casts of mixed precision, which do nothing on a machine without a GPU."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from lintrain.runtime.frameworks.loop.watch import Watch

ENABLED = "lintrain_enabled"
"""The attribute of a gradient scaler that says whether the script enables it."""
CAST = "lintrain_cast"
"""The attribute of an autocast for a GPU with the format that the script asks for, whether there is a GPU or not."""


def hook_scaler(watch: Watch, module: Any) -> None:
    """Let the watch see what gradient scalers do."""
    scaler = module.GradScaler
    scale, unscale = scaler.scale, scaler.unscale_

    @functools.wraps(scale)
    def watched_scale(self: Any, *args: Any, **kwargs: Any) -> Any:
        by = float(self.get_scale()) if self.is_enabled() else None
        watch.effects.on_scaling(by, is_asked=self.__dict__.get(ENABLED, True))
        return scale(self, *args, **kwargs)

    @functools.wraps(unscale)
    def watched_unscale(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        watch.effects.on_unscaling(self, optimizer, is_asked=self.__dict__.get(ENABLED, True))
        return unscale(self, optimizer, *args, **kwargs)

    build, step, update = scaler.__init__, scaler.step, scaler.update

    @functools.wraps(build)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        # One for a device that is not there disables itself; on the device it is what the script asks for.
        self.__dict__[ENABLED] = bool(kwargs.get("enabled", True))
        build(self, *args, **kwargs)

    scaler.__init__ = init

    @functools.wraps(step)
    def watched_step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        if self.__dict__.get(ENABLED, True):
            watch.effects.on_scaler_step(self, optimizer)
        return step(self, optimizer, *args, **kwargs)

    @functools.wraps(update)
    def watched_update(self: Any, *args: Any, **kwargs: Any) -> Any:
        watch.effects.on_scaler_update(self)
        return update(self, *args, **kwargs)

    scaler.scale, scaler.unscale_, scaler.step, scaler.update = (
        watched_scale,
        watched_unscale,
        watched_step,
        watched_update,
    )


def hook_autocast(watch: Watch, module: Any) -> None:
    """Let the watch see the formats in which the script asks a GPU to compute."""
    autocast = module.autocast
    build, enter, leave = autocast.__init__, autocast.__enter__, autocast.__exit__
    names = tuple(inspect.signature(build).parameters)[1:]

    @functools.wraps(build)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        build(self, *args, **kwargs)
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        is_cast = given.get("device_type") == "cuda" and given.get("enabled", True) is True
        self.__dict__[CAST] = str(self.fast_dtype).removeprefix("torch.") if is_cast else ""

    @functools.wraps(enter)
    def watched_enter(self: Any) -> Any:
        watch.effects.on_cast(self.__dict__.get(CAST, ""))
        return enter(self)

    @functools.wraps(leave)
    def watched_exit(self: Any, *args: Any) -> Any:
        watch.effects.on_cast_end()
        return leave(self, *args)

    autocast.__init__, autocast.__enter__, autocast.__exit__ = init, watched_enter, watched_exit
