"""Loss functions under watch however they were imported: a name bound before the measurement is not hooked."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from lintrain.runtime.child.library import library
from lintrain.runtime.frameworks.loop.torch_hooks import LOSSES
from lintrain.runtime.frameworks.loop.watch import Watch


def watched_losses(watch: Watch) -> AbstractContextManager[Any]:
    """A mode of torch that reports every call of a loss function to the watch, and changes none."""
    functional = library("torch.nn.functional")
    names = {getattr(functional, name): name for name in LOSSES}
    mode: Any = library("torch.overrides").TorchFunctionMode

    class Losses(mode):  # type: ignore[misc] # the library is read without its types
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name, options = names.get(function), dict(kwargs or {})
            if name is None or len(args) < 2 or not watch.is_on:
                return function(*args, **options)
            call = watch.on_loss(name, args[0], args[1], args[2:], options)
            call.result = function(*args, **options)
            return call.result

    return Losses()
