"""Validators of plain values, made once for each type: that of a run's evidence takes a tenth of a second."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")

_made: dict[type, Any] = {}


def validator_of(kind: type[T]) -> TypeAdapter[T]:
    """The validator of a type. It loads pydantic, which a check does without."""
    if kind not in _made:
        from pydantic import TypeAdapter

        _made[kind] = TypeAdapter(kind)
    validator: TypeAdapter[T] = _made[kind]
    return validator


__all__ = ["validator_of"]
