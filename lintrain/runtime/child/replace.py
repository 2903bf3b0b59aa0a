"""Put something else in place of an attribute for a while.

The datasets that a run was given.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from lintrain.model.location import Location
from lintrain.runtime.child.library import is_mapping
from lintrain.startup.lazy_dataclass import dataclass


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


@dataclass(frozen=True)
class Given:
    """One dataset as the trainer has it; `key` where it is one of a dictionary, `place` where a later call gives it."""

    argument: str
    dataset: Any
    key: str | None = None
    location: Location | None = None

    def is_of(self, owned: Any) -> bool:
        """Whether this is what an attribute of the trainer holds: the dataset, or the one under its key."""
        return self.dataset is (owned.get(self.key) if self.key is not None and is_mapping(owned) else owned)

    @property
    def name(self) -> str:
        """The argument, with the key in a dictionary of datasets."""
        return f"{self.argument}[{self.key!r}]" if self.key else self.argument
