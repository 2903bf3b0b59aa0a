"""Lightning: the Trainer object, and what a script gives it to fit."""

from __future__ import annotations

from lintrain.model.location import Location
from lintrain.pipeline.values.python import LibraryObject, Value
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(eq=False, slots=True)
class LightningTrainer(LibraryObject):
    """A Trainer of Lightning."""


@dataclass(frozen=True, slots=True)
class LightningFit:
    """One call of a Trainer's `fit`: the module that it trains."""

    location: Location
    module: Value


@dataclass(frozen=True, slots=True)
class LoggedNames:
    """One reading of a `self.log(…)` in a Lightning module: the names that it logs by, None where one is not known."""

    location: Location
    names: tuple[str, ...] | None
