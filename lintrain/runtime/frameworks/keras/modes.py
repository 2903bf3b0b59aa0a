"""Layers that work differently in training and in inference: are they in training mode during a training step?"""

from __future__ import annotations

import functools
import re
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import Any

from lintrain.runtime.child.replace import replaced
from lintrain.startup.lazy_dataclass import dataclass

MODAL = re.compile(r"^(\w*Dropout\w*|BatchNormalization|GaussianNoise|SpectralNormalization)$")


@dataclass
class ModeCalls:
    """Calls of such layers, and how many of them were in training mode."""

    every: int = 0
    in_training: int = 0


@contextmanager
def counted_modes(model: Any) -> Generator[ModeCalls]:
    """Count the calls of the library's modal layers while a step runs."""
    counts = ModeCalls()
    kinds = {base for kind in _kinds(model) for base in kind.__mro__ if MODAL.match(base.__name__)}
    with ExitStack() as stack:
        for kind in kinds:
            if (call := vars(kind).get("call")) is not None:
                stack.enter_context(replaced(kind, call=_counting(call, counts)))
        yield counts


def _kinds(model: Any) -> set[type]:
    return {type(layer) for layer in model._flatten_layers()}


def _counting(call: Any, counts: ModeCalls) -> Any:
    @functools.wraps(call)
    def counted(layer: Any, *args: Any, **kwargs: Any) -> Any:
        if args and hasattr(args[0], "numpy"):  # a tensor, not the shape of one, with which Keras builds a model
            counts.every += 1
            counts.in_training += bool(kwargs.get("training", args[1] if len(args) > 1 else False))
        return call(layer, *args, **kwargs)

    return counted
