"""Counts of batches that methods of Keras get: how many an epoch, a validation, a prediction takes."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

METHODS = frozenset({"fit", "evaluate", "predict"})
COUNTS = frozenset({"steps_per_epoch", "validation_steps", "steps"})
"""Arguments of these methods that are handed to `range`, since Keras 3 (`keras/src/trainers/epoch_iterator.py`)."""


def given_counts(call: ast.Call, modules: Mapping[str, str]) -> Iterator[tuple[ast.expr, str, str]]:
    """The counts that a method of a network gets: the expression, what gets it, and the package that asks."""
    is_method = isinstance(call.func, ast.Attribute) and call.func.attr in METHODS
    if is_method and any("keras" in path or path.startswith("tensorflow") for path in modules.values()):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        yield from ((each.value, f"`{name}`", "keras") for each in call.keywords if each.arg in COUNTS)
