"""The datasets that a run was given."""

from __future__ import annotations

from typing import Any

from lintrain.model.location import Location
from lintrain.runtime.child.kinds import is_mapping
from lintrain.startup.lazy_dataclass import dataclass


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
