"""The calls of torch's cross-entropy under a library's training step."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import Any

from lintrain.runtime.child.library import library
from lintrain.runtime.child.replace import replaced
from lintrain.runtime.measure.seen import LossCall

FUNCTIONS = ("cross_entropy", "nll_loss")


@contextmanager
def seen_losses() -> Generator[list[LossCall]]:
    """What the loss functions are called with meanwhile."""
    functional, calls = library("torch.nn.functional"), list[LossCall]()
    with ExitStack() as stack:
        for name in FUNCTIONS:
            stack.enter_context(replaced(functional, **{name: _seen(name, getattr(functional, name), calls)}))
        yield calls


def _seen(name: str, function: Callable[..., Any], calls: list[LossCall]) -> Callable[..., Any]:
    def loss(input: Any, target: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: A002 - torch's own name, given by keyword
        # Kept before the call: a loss that raises is the most interesting one.
        call = LossCall(name, input, target, kwargs)
        call.result = function(input, target, *args, **kwargs)
        calls.append(call)
        return call.result

    return loss
