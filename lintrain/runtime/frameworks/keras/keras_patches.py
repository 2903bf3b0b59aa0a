"""Intercept Keras, on torch and on TensorFlow: where a model is compiled, its first `fit` or `train_on_batch`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lintrain.runtime.child.frames import frame_location, users_frame
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.library import attribute, is_row
from lintrain.runtime.child.probe_session import ProbeSession
from lintrain.runtime.frameworks.trainer.later_calls import trains_again

if TYPE_CHECKING:
    from lintrain.runtime.frameworks.keras.data import Backend


def install(session: ProbeSession, hooks: AfterImport) -> None:
    """Patch the classes as soon as the script imports Keras, with any backend, or `tf_keras`."""
    hooks.add("keras.src.trainers.trainer", lambda module: _follow_compile(module.Trainer))
    hooks.add("keras.src.backend.torch.trainer", lambda module: _patch(session, module.TorchTrainer, _torch))
    hooks.add(
        "keras.src.backend.tensorflow.trainer", lambda module: _patch(session, module.TensorFlowTrainer, _tensorflow)
    )
    hooks.add("tf_keras.src.engine.training", lambda module: _patch_older(session, module.Model))
    hooks.add("transformers.modeling_tf_utils", lambda module: _mark_pretrained(module.TFPreTrainedModel))


def _torch() -> Backend:
    from lintrain.runtime.frameworks.keras.training import TORCH

    return TORCH


def _tensorflow() -> Backend:
    from lintrain.runtime.frameworks.tensorflow.training import TENSORFLOW

    return TENSORFLOW


def _older() -> Backend:
    from lintrain.runtime.frameworks.tensorflow.training import TF_KERAS

    return TF_KERAS


def _patch_older(session: ProbeSession, model: Any) -> None:
    _follow_compile(model)
    _patch(session, model, _older)


def _mark_pretrained(model: Any) -> None:
    """Remember which models have the weights of a checkpoint."""
    load = model.from_pretrained.__func__

    @functools.wraps(load)
    def from_pretrained(cls: Any, *args: Any, **kwargs: Any) -> Any:
        loaded = load(cls, *args, **kwargs)
        made: Any = loaded[0] if is_row(loaded) else loaded
        # Past Keras' own `__setattr__`, which tracks what a model holds.
        object.__setattr__(made, "lintrain_pretrained", True)
        return loaded

    model.from_pretrained = classmethod(from_pretrained)


def _follow_compile(model: Any) -> None:
    build = model.compile

    @functools.wraps(build)
    def compile_(self: Any, *args: Any, **kwargs: Any) -> Any:
        location = frame_location(users_frame(skip=self))
        result = build(self, *args, **kwargs)
        # After `compile` has succeeded: a model whose `compile` raises has no location of one.
        object.__setattr__(self, "lintrain_compiled", location)
        return result

    model.compile = compile_


def _patch(session: ProbeSession, trainer: Any, find_backend: Callable[[], Backend]) -> None:
    for name in ("fit", "train_on_batch"):
        _patch_training(session, trainer, name, find_backend)


def _patch_training(session: ProbeSession, trainer: Any, name: str, find_backend: Callable[[], Backend]) -> None:
    original = getattr(trainer, name)
    signature = inspect.signature(original)

    @functools.wraps(original)
    def train(self: Any, *args: Any, **kwargs: Any) -> Any:
        # A model that is not compiled makes Keras raise with its own text, which is the best one.
        # While measuring, the stages call `fit` and `train_on_batch` themselves, and those calls have to reach Keras.
        if session.measuring or not session.is_root or not _is_compiled(self):
            return original(self, *args, **kwargs)
        try:
            bound = signature.bind(self, *args, **kwargs)
        except TypeError:
            return original(self, *args, **kwargs)  # Keras says what is wrong with the call
        bound.apply_defaults()
        from lintrain.runtime.frameworks.keras.stages import measure

        session.measuring = True
        location = frame_location(users_frame(skip=self))
        follows = name == "fit" and session.may_continue and trains_again("fit", trainer)
        session.enters(location)
        given = {name: value for name, value in bound.arguments.items() if name != "self"}
        try:
            backend = find_backend()
            measure(backend.run(session, self, location, given, f"Model.{name}"), backend)
            history = _short_history(original, self, given) if follows and session.may_continue else None
            if history is not None:
                session.continue_after_call(is_new=True)
                return history
        except BaseException as error:  # noqa: BLE001 - nothing of the probe may reach the script's own `except:`
            session.on_own_error(error)
        return session.finish()

    setattr(trainer, name, train)


def _short_history(fit: Callable[..., Any], model: Any, given: dict[str, Any]) -> Any:
    """What `fit` returns: of one step of one epoch without callbacks, repeated for every epoch of the script.

    None if this step fails, which the stages would have shown if it were the script's fault.
    """
    short = {"epochs": 1, "initial_epoch": 0, "steps_per_epoch": 1, "verbose": 0, "callbacks": None}
    if given.get("validation_data") is not None:
        short["validation_steps"] = 1
    try:
        # A script that continues reads `history.history["val_loss"][-1]` and plots it: lists of the planned
        # length keep that running.
        history = fit(model, **{**given, **short})
    except Exception:  # noqa: BLE001 - of a step that only lintrain makes: the probe ends at this call
        return None
    epochs = max(1, int(given.get("epochs") or 1) - int(given.get("initial_epoch") or 0))
    history.epoch = list(range(epochs))
    history.history = {name: list(values) * epochs for name, values in history.history.items()}
    return history


def _is_compiled(model: Any) -> bool:
    return bool(attribute(model, "compiled", False) or attribute(model, "_is_compiled", False))
