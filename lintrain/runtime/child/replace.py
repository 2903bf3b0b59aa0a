"""Put something else in place of an attribute for a while."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any


@contextmanager
def replaced(owner: Any, **values: Any) -> Generator[None]:
    """Set attributes on one object and give it back as it was: its own values restored, borrowed ones uncovered."""
    before: dict[str, Any] = {name: vars(owner)[name] for name in values if name in vars(owner)}
    for name, value in values.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        # What the object had only from its class is deleted again: set on the object, it would hide a later patch of
        # the class.
        for name in values:
            if name in before:
                setattr(owner, name, before[name])
            else:
                delattr(owner, name)
