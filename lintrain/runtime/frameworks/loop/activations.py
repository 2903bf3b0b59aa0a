"""Where the script calls a sigmoid or a softmax: a loss that expects logits is shown there if it gets probabilities.

Operations in the graph of a loss: logarithms of such probabilities, and divergences that are averaged over classes.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
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
from lintrain.runtime.child.library import attribute
from lintrain.runtime.measure.losses import mark_activation, name_of, past_views
from lintrain.runtime.measure.seen import LossCall
from lintrain.startup.folders import PACKAGE


def marked(result: Any, caller: FrameType | None) -> Any:
    """What an activation returned, with the location of the call in its graph if the script makes it."""
    # Without a graph there is nothing to put the location on, and no loss to look for it.
    if caller is not None and attribute(result, "grad_fn", None) is not None and is_users(caller.f_code.co_filename):
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
        if attribute(result, "grad_fn", None) is not None:
            # One of a `Sequential` is called where that is; it is corrected where it is made.
            is_direct = is_called_by_user("/torch/nn/modules/module.py", "/torch/nn/modules/activation.py")
            mark_activation(result, frame_location(users_frame()) if is_direct else made_at(self))
        return result

    return activation


def library_frame() -> FrameType | None:
    """The innermost frame that is not lintrain's own: of a library, or of the user's code."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    return frame


CHOSEN = "lintrain_reduction_chosen"
"""The attribute of a module of `KLDivLoss` that says whether the script chose its reduction."""
OLD_REDUCTIONS = ("size_average", "reduce", "reduction")


def chooses_reduction(frame: FrameType | None, rest: Sequence[Any], options: Mapping[str, Any]) -> bool:
    """Whether the script says how a divergence is reduced, in a call that a frame makes or for the module there."""
    owner: Any = frame.f_locals.get("self") if frame is not None and not is_users(frame.f_code.co_filename) else None
    if owner is not None:
        return bool(owner.__dict__.get(CHOSEN, True))
    return len(rest) > OLD_REDUCTIONS.index("reduction") or any(name in options for name in OLD_REDUCTIONS)


def hook_divergence(module: Any) -> None:
    """Keep in each `KLDivLoss` whether the script chose its reduction."""
    build = module.KLDivLoss.__init__

    @functools.wraps(build)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        build(self, *args, **kwargs)
        self.__dict__[CHOSEN] = chooses_reduction(None, args, kwargs)

    module.KLDivLoss.__init__ = init


MOST_FACTORS = 4


def divided(call: LossCall, nodes: Sequence[Any]) -> str:
    """By how many values a divergence is divided; "" if it has no axis of classes, or is multiplied by them again."""
    shape, factor = tuple(call.input.shape), 1.0
    node = attribute(call.result, "grad_fn", None)
    if len(shape) < 2 or shape[1] < 2 or node is None or node not in nodes:
        return ""
    for _ in range(MOST_FACTORS):
        node = next((above for above in nodes if _multiplies(above, node)), None)
        factor *= float(node._saved_other) if node is not None else 1.0
    classes, value = call.input.numel() // shape[0], float(call.result.detach())
    if not factor % classes:
        return ""
    each = f"{value:.3g}, and not {value * classes:.3g}"
    return f"the divergence is divided by {call.input.numel()} values, not by {shape[0]} rows: {each}"


def _multiplies(node: Any, result: Any) -> bool:
    """Whether an operation multiplies a result by a number."""
    number = attribute(node, "_saved_other", None) if name_of(node) == "Mul" else None
    return number is not None and number.numel() == 1 and any(below is result for below, _ in node.next_functions)


PROBABILITIES = {"Sigmoid": "sigmoid", "Softmax": "softmax"}


def probability_below(node: Any) -> str | None:
    """The function whose result, or one minus that, an operation gets, views left out; None for any other."""
    below = past_views(node.next_functions[0][0])
    if below is not None and name_of(below) == "Rsub" and len(below.next_functions) == 1:  # `1 - p`
        below = past_views(below.next_functions[0][0])
    return PROBABILITIES.get(name_of(below)) if below is not None else None


def least_of(node: Any) -> float:
    """The least number whose logarithm an operation takes; NaN if it is gone."""
    try:
        return float(node._saved_self.detach().min())
    except RuntimeError:  # the script has changed it in place, which its backward pass will say
        return float("nan")
