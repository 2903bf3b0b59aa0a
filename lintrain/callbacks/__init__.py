"""Callbacks that watch the first steps of a real run, and stop it with the reason if a mistake is confirmed.

`TrainerWatch` is for transformers' Trainer, `LightningWatch` for Lightning. Each class is created on its first import,
so that importing this module loads neither library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lintrain.callbacks.lightning import LightningWatch as LightningWatch
    from lintrain.callbacks.trainer import TrainerWatch as TrainerWatch

_HOME_OF = {"TrainerWatch": "lintrain.callbacks.trainer", "LightningWatch": "lintrain.callbacks.lightning"}


def __getattr__(name: str) -> object:
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module 'lintrain.callbacks' has no attribute {name!r}")
