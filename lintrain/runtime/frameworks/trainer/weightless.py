"""Models whose weights are not here or do not fit: made from their configuration alone, to be projected."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from lintrain.runtime.child.library import library
from lintrain.runtime.child.probe_session import ProbeSession
from lintrain.runtime.measure.live_bytes import size_of
from lintrain.runtime.measure.predictions import free_memory
from lintrain.text.sizes import show_size

MOST_SHARE = 0.5
"""Weights that take more of the free memory than this are not loaded: a step needs four times as much."""

REASON = "the weights were not loaded"
Load = Callable[..., Any]


def loaded_or_empty(session: ProbeSession, load: Load, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The model and what the library says of its loading; for a named device also where there are no weights."""
    if session.device_memory is None or (empty := _empty(cls, args, kwargs)) is None:
        return load(cls, *args, output_loading_info=True, **kwargs)
    size, free = sum(size_of(weight) for weight in empty.parameters()), free_memory()
    if free is not None and size > MOST_SHARE * free:
        return _instead(session, empty, f"they take {show_size(size)}, {show_size(free)} are free"), {}
    try:
        return load(cls, *args, output_loading_info=True, **kwargs)
    except OSError as error:  # the configuration was found, so that this is about the weights
        return _instead(session, empty, str(error).splitlines()[0]), {}


def is_weightless(model: Any) -> bool:
    """Whether some weights of a model have no values."""
    return any(getattr(weight, "is_meta", False) for weight in model.parameters())


def _empty(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The model without weights; None if it cannot be made from a configuration alone."""
    torch = library("torch")
    given = {name: value for name, value in kwargs.items() if name not in ("config", "dtype", "torch_dtype")}
    try:
        config = kwargs.get("config")
        if config is None or isinstance(config, str):
            config, _ = cls.config_class.from_pretrained(config or args[0], return_unused_kwargs=True, **given)
        if kwargs.get("quantization_config") or getattr(config, "quantization_config", None):
            return None
        options = {name: given[name] for name in ("attn_implementation",) if name in given}
        # Shapes and dtypes without memory: a model of 70 billion parameters is made in a second.
        with torch.device("meta"):
            return cls._from_config(config, dtype=_dtype(config, kwargs), **options).eval()
    except Exception:  # noqa: BLE001 - the script's own call will say what is wrong
        return None


def _dtype(config: Any, kwargs: dict[str, Any]) -> Any:
    """The format that the weights would be loaded in: from transformers 5 on that of the checkpoint."""
    torch, transformers = library("torch"), library("transformers")
    asked = kwargs.get("dtype", kwargs.get("torch_dtype"))
    if asked is None and int(transformers.__version__.split(".")[0]) < 5:
        return torch.float32
    if asked in (None, "auto"):
        asked = getattr(config, "dtype", None) or getattr(config, "torch_dtype", None) or torch.float32
    return getattr(torch, asked) if isinstance(asked, str) else asked


def _instead(session: ProbeSession, empty: Any, why: str) -> Any:
    session.note(f"{REASON}, a step is projected without them: {why}")
    _let_stay()
    return empty


def _let_stay() -> None:
    """Weights without values stay where they are, wherever they are sent."""
    module = library("torch.nn").Module
    if hasattr(module, "lintrain_stays"):
        return
    apply = module._apply

    @functools.wraps(apply)
    def applied(self: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
        return apply(self, functools.partial(_moved, function), *args, **kwargs)

    module._apply, module.lintrain_stays = applied, True


def _moved(function: Callable[[Any], Any], tensor: Any) -> Any:
    if not tensor.is_meta:
        return function(tensor)
    try:
        return function(tensor)
    except NotImplementedError:
        return tensor
