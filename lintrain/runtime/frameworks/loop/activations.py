"""Where the script calls a sigmoid or a softmax: a loss that expects logits is shown there if it gets probabilities."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FrameType
from typing import Any

from lintrain.runtime.child.frames import (
    callers_frame,
    frame_location,
    is_called_by_user,
    is_users,
    keep_location,
    made_at,
    users_frame,
)
from lintrain.runtime.measure.losses import mark_activation


def marked(result: Any, caller: FrameType | None) -> Any:
    """What an activation returned, with the location of the call in its graph if the script makes it."""
    # Without a graph there is nothing to put the location on, and no loss to look for it.
    if caller is not None and getattr(result, "grad_fn", None) is not None and is_users(caller.f_code.co_filename):
        mark_activation(result, frame_location(caller))
    return result


def hook_methods(module: Any) -> None:
    """Mark what the methods of tensors return; functions of `torch` itself are known to others by their identity."""
    for name in ("log", "log_softmax", "sigmoid", "softmax"):
        setattr(module.Tensor, name, _watched_method(getattr(module.Tensor, name)))


def _watched_method(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def activation(self: Any, *args: Any, **kwargs: Any) -> Any:
        return marked(function(self, *args, **kwargs), callers_frame(above=1))

    return activation


def hook_layers(module: Any) -> None:
    """Mark what the layers return."""
    for kind in (module.LogSoftmax, module.Sigmoid, module.Softmax):
        # A layer in a `Sequential` has no call in the script: the place where it was made is what the user can change.
        kind.__init__, kind.forward = _placed_layer(kind.__init__), _watched_layer(kind.forward)


def _placed_layer(build: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(build)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        build(self, *args, **kwargs)
        keep_location(self)

    return init


def _watched_layer(forward: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(forward)
    def activation(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = forward(self, *args, **kwargs)
        if getattr(result, "grad_fn", None) is not None:
            # One of a `Sequential` is called where that is; it is corrected where it is made.
            is_direct = is_called_by_user("/torch/nn/modules/module.py", "/torch/nn/modules/activation.py")
            mark_activation(result, frame_location(users_frame()) if is_direct else made_at(self))
        return result

    return activation
