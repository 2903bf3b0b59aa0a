"""What a run tells DeepSpeed: in a file of its own, in a dictionary, or in the file that training arguments name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.python import Constant, Mapping, Value, literal
from lintrain.pipeline.values.training import TrainingArguments

FILE = "deepspeed.config"
"""The call that stands for a configuration file of DeepSpeed."""


class Settings(NamedTuple):
    """The settings by their keys, where each is, and the training arguments that they are for, if there are any."""

    entries: dict[str, Value]
    locations: dict[str, Location]
    fallback: Location
    arguments: TrainingArguments | None

    def at(self, key: str) -> object:
        """The value of `fp16.enabled` and the like; None if it is missing or not known."""
        first, *others = key.split(".")
        value = self.entries.get(first)
        for part in others:
            value = value.entries.get(part) if isinstance(value, Mapping) else None
        return literal(value) if isinstance(value, Constant) else None

    def has(self, key: str) -> bool:
        """Whether a section is given."""
        first, *others = key.split(".")
        value = self.entries.get(first)
        for part in others:
            value = value.entries.get(part) if isinstance(value, Mapping) else None
        return value is not None and not (isinstance(value, Constant) and value.value is None)

    def location(self, key: str) -> Location:
        """Where the key at the top is that a setting belongs to."""
        return self.locations.get(key.partition(".")[0], self.fallback)


def settings_of(pipeline: Pipeline) -> Iterator[Settings]:
    """All that the script or file tells DeepSpeed."""
    for call in pipeline.calls:
        if call.path == FILE:
            entries = {name: argument.value for name, argument in call.arguments.items()}
            locations = {name: argument.keyword or argument.location for name, argument in call.arguments.items()}
            yield Settings(entries, locations, call.location, None)
    for arguments in pipeline.arguments:
        given, location = arguments.value("deepspeed"), arguments.locations.get("deepspeed")
        if isinstance(given, Mapping) and location is not None:
            entries = {str(key): value for key, value in given.entries.items()}
            written = {str(key): location for key, location in given.written.items()}
            yield Settings(entries, written, location, arguments)
