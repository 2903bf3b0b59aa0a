"""Intercept Keras on its torch backend: where a model is compiled, its first `fit` or `train_on_batch`."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from lintrain.probe.child.frames import frame_place, users_frame
from lintrain.probe.child.hooks import AfterImport
from lintrain.probe.child.session import Session


def install(session: Session, hooks: AfterImport) -> None:
    """Patch the classes as soon as the script imports Keras."""
    hooks.add("keras.src.trainers.trainer", _follow_compile)
    hooks.add("keras.src.backend.torch.trainer", lambda module: _patch(session, module.TorchTrainer))


def _follow_compile(module: Any) -> None:
    build = module.Trainer.compile

    @functools.wraps(build)
    def compile_(self: Any, *args: Any, **kwargs: Any) -> Any:
        place = frame_place(users_frame(skip=self))
        result = build(self, *args, **kwargs)
        object.__setattr__(self, "lintrain_compiled", place)
        return result

    module.Trainer.compile = compile_


def _patch(session: Session, trainer: Any) -> None:
    for name in ("fit", "train_on_batch"):
        _patch_training(session, trainer, name)


def _patch_training(session: Session, trainer: Any, name: str) -> None:
    original = getattr(trainer, name)
    signature = inspect.signature(original)

    @functools.wraps(original)
    def train(self: Any, *args: Any, **kwargs: Any) -> Any:
        if session.measuring or not session.is_root or not getattr(self, "compiled", False):
            return original(self, *args, **kwargs)
        try:
            bound = signature.bind(self, *args, **kwargs)
        except TypeError:
            return original(self, *args, **kwargs)  # Keras says what is wrong with the call
        bound.apply_defaults()
        from lintrain.probe.child.keras.run import KerasRun
        from lintrain.probe.child.keras.stages import measure

        session.measuring = True
        place = frame_place(users_frame(skip=self))
        given = {name: value for name, value in bound.arguments.items() if name != "self"}
        try:
            measure(KerasRun(session, self, place, given, f"Model.{name}"))
        except BaseException as error:  # noqa: BLE001 - nothing of the probe may reach the script's own `except:`
            session.failed(error)
        return session.finish()

    setattr(trainer, name, train)
