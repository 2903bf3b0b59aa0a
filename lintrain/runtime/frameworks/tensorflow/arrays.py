"""Tensors, variables and gradients of TensorFlow as arrays of NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lintrain.runtime.child.kinds import is_mapping, is_row
from lintrain.runtime.child.library import library


def array_of(value: Any) -> Any:
    """What a tensor, a variable or a sparse gradient holds; None for what holds no numbers."""
    value = getattr(value, "value", value) if type(value).__module__.startswith("keras") else value
    if hasattr(value, "indices") and hasattr(value, "values"):  # a gradient of an embedding, row by row
        value = library("tensorflow").convert_to_tensor(value)
    if not hasattr(value, "numpy"):
        return None
    values = value.numpy()
    return values if getattr(values, "dtype", None) is not None else None


def numbers_of(value: Any) -> Any:
    """The same in float32, for norms; bfloat16 too."""
    values = array_of(value)
    return None if values is None or values.dtype.kind in "OSU" else values.astype("float32")


def leaves(value: Any) -> Iterator[Any]:
    """Every entry of nested containers, in their order."""
    if is_mapping(value):
        for part in value.values():
            yield from leaves(part)
    elif is_row(value):
        for part in value:
            yield from leaves(part)
    else:
        yield value


def name_of(variable: Any) -> str:
    """The path of a variable in its model, with dots."""
    return str(getattr(variable, "path", None) or variable.name).removesuffix(":0").replace("/", ".")


def key_of(variable: Any) -> int:
    """What is the same for a variable of Keras 3 and for the one of TensorFlow inside it."""
    inner = getattr(variable, "_value", None)
    return id(variable if inner is None else inner)
