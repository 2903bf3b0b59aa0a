"""Tests of values of the libraries that also narrow their types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard


def is_mapping(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """Whether a value has names and values: a dictionary, a batch, a model's output."""
    return isinstance(value, Mapping)


def is_row(value: Any) -> TypeGuard[list[Any] | tuple[Any, ...]]:
    """Whether a value is a list or a tuple."""
    return isinstance(value, list | tuple)
