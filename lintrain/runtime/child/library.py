"""The libraries of the probed script, read without types.

Tests of values of the libraries that also narrow their types, and of the GPU that torch uses.

A process of several whose steps were all measured.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Mapping
from importlib import import_module
from typing import Any, TypeGuard


def library(name: str) -> Any:  # Any: probes meet many versions of these libraries, no one stub fits all
    """A module of the script's own environment."""
    return import_module(name)


def loaded(name: str) -> Any | None:  # Any: as above
    """A module if the script has already imported it, else None."""
    return sys.modules.get(name)


def attribute(value: Any, name: str, default: Any = None) -> Any:
    """An attribute of an object of the script; the default too where its own `__getattr__` fails at an unknown name.

    `__getattr__` of many classes looks into a dictionary and raises `KeyError`, which `getattr` passes on.
    """
    try:
        return getattr(value, name, default)
    except Exception:  # noqa: BLE001 - whatever the script's own method raises, the attribute is not there
        return default


def has(value: Any, name: str) -> bool:
    """Whether an object of the script has an attribute, and gives it without an error."""
    try:
        return hasattr(value, name)
    except Exception:  # noqa: BLE001 - as above
        return False


def attributes_to_copy(function: Any) -> list[str]:
    """Which of the attributes that `functools.wraps` copies an object of the script gives without an error."""
    return [name for name in functools.WRAPPER_ASSIGNMENTS if attribute(function, name) is not None]


def version_of(package: str) -> str | None:
    """The version of an imported package, or None if the script did not import it."""
    version = getattr(loaded(package), "__version__", None)
    return str(version) if version else None


def uses_gpu() -> bool:
    """Whether the script has begun to use a GPU."""
    torch = loaded("torch")
    return torch is not None and bool(torch.cuda.is_available() and torch.cuda.is_initialized())


def gpu_answers() -> bool:
    """Whether the GPU still works for this process, or is not used by it.

    A kernel that asserts (a label without an output, an id beyond the embedding) takes the GPU away from its process:
    every later call raises the same error, whatever it asks for.
    """
    if not uses_gpu():
        return True
    try:
        library("torch").cuda.synchronize()
    except RuntimeError:
        return False
    return True


PACKAGES = (
    "torch",
    "transformers",
    "datasets",
    "accelerate",
    "evaluate",
    "peft",
    "trl",
    "tokenizers",
    "keras",
    "tf_keras",
    "tensorflow",
    "lightning",
)


def versions() -> dict[str, str]:
    """The versions of Python and of the imported packages that decide how training goes."""
    found = {name: version for name in PACKAGES if (version := version_of(name))}
    return {"python": sys.version.split()[0], **found}


def is_mapping(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """Whether a value has names and values: a dictionary, a batch, a model's output."""
    return isinstance(value, Mapping)


def is_row(value: Any) -> TypeGuard[list[Any] | tuple[Any, ...]]:
    """Whether a value is a list or a tuple."""
    return isinstance(value, list | tuple)


def is_tuple(value: Any) -> TypeGuard[tuple[Any, ...]]:
    """Whether a value is a tuple: the parts of a row, where a list may be the numbers of one."""
    return isinstance(value, tuple)


def is_dictionary(value: Any) -> TypeGuard[dict[Any, Any]]:
    """Whether a value is a dictionary itself, not only like one."""
    return isinstance(value, dict)


WAIT_SECONDS = 30.0
"""Seconds that a process waits to be ended after its steps: the others may still need an answer from it."""


def wait_for_the_others() -> None:
    """Nothing more is done here; the parent ends all processes together."""
    ends = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < ends:
        time.sleep(0.05)
