"""The learning rate that the arguments of a Trainer certainly set."""

from __future__ import annotations

from lintrain.model.location import Location
from lintrain.pipeline.values.python import Absent, Constant, number_of, text_of
from lintrain.pipeline.values.training import TrainerRun
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Rate:
    """A learning rate and the code that sets it: the whole call for a default."""

    value: float
    location: Location
    argument: str
    is_default: bool
    owner: str


def rate_in_settings(run: TrainerRun) -> Rate | None:
    """The learning rate that a Trainer's arguments certainly set, for an optimizer that does not scale it."""
    settings = run.settings
    if settings is None or settings.origin is None or not isinstance(run.value("optimizers"), Absent):
        return None
    if "create_optimizer" in run.overrides:
        return None
    given, name = settings.value("learning_rate"), text_of(settings.value("optim"))
    # What a command line fills has the library's default, unless somebody passes another.
    is_left_out = "optim" not in settings.values and (settings.is_complete or "parse_" in settings.text)
    is_adamw = is_left_out or (name or "").startswith(("adamw", "paged_adamw"))
    value, location = number_of(given), settings.locations.get("learning_rate")
    if value is None or location is None or not is_adamw or (isinstance(given, Constant) and given.may_differ):
        return None
    return Rate(value, location, "learning_rate", False, "Trainer")
