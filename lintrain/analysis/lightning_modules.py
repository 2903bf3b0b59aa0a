"""Lightning: the schedules that `configure_optimizers` of a module returns, in every documented form."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.model.location import Location
from lintrain.pipeline.modules import lineage_of
from lintrain.pipeline.record import Pipeline, Returned
from lintrain.pipeline.values.model import Scheduler
from lintrain.pipeline.values.python import ABSENT, Class, Mapping, Sequence, Value, literal, options_of
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

MODULES = frozenset({"lightning.LightningModule", "pytorch_lightning.LightningModule"})


@dataclass(frozen=True, slots=True)
class ReturnedSchedule:
    """The code of a schedule, or of the dictionary around it, in the result of `configure_optimizers`."""

    location: Location
    code: str
    is_dictionary: bool

    def with_interval(self, interval: str) -> str:
        """The code with this interval added."""
        if not self.is_dictionary:
            return f'{{"scheduler": {self.code}, "interval": "{interval}"}}'
        return f'{self.code[:-1].rstrip().rstrip(",")}, "interval": "{interval}"}}'


@dataclass(frozen=True, slots=True)
class Configured:
    """A schedule that a module returns to Lightning; `settings` is the dictionary around it, if there is one."""

    scheduler: Scheduler
    settings: Mapping | None
    returned: Returned

    @property
    def interval(self) -> str | None:
        """How often Lightning steps it, once per "epoch" by default; None if it is unknown."""
        if self.settings is None:
            return "epoch"
        if "interval" in self.settings.entries:
            interval = literal(self.settings.entries["interval"])
            return interval if isinstance(interval, str) else None
        return "epoch" if self.settings.is_complete else None

    def returned_schedule(self, pipeline: Pipeline) -> ReturnedSchedule | None:
        """The dictionary of settings around the schedule, or the schedule in a `return` statement."""
        names = {binding.name for binding in pipeline.names_of(self.scheduler)}
        method = self.returned.method
        source = pipeline.source_of(method.origin) if method.origin else pipeline.source
        for node in ast.walk(method.node):
            if isinstance(node, ast.Dict) and any(_is_setting(pair, self, names, source) for pair in _pairs(node)):
                return ReturnedSchedule(source.location(node), source.code(source.location(node)), True)
        for node in ast.walk(method.node):
            for inner in ast.walk(node) if isinstance(node, ast.Return) else ():
                if isinstance(inner, ast.expr) and _is_schedule(inner, self, names, source):
                    return ReturnedSchedule(source.location(inner), source.code(source.location(inner)), False)
        return None


def _pairs(node: ast.Dict) -> list[tuple[ast.expr | None, ast.expr]]:
    return list(zip(node.keys, node.values, strict=True))


def _is_setting(
    pair: tuple[ast.expr | None, ast.expr], configured: Configured, names: set[str], source: Source
) -> bool:
    key, value = pair
    is_key = isinstance(key, ast.Constant) and key.value == "scheduler"
    return is_key and _is_schedule(value, configured, names, source)


def _is_schedule(node: ast.expr, configured: Configured, names: set[str], source: Source) -> bool:
    if isinstance(node, ast.Name):
        return node.id in names
    return isinstance(node, ast.Call) and source.location(node) == configured.scheduler.origin


def is_lightning_module(cls: Class) -> bool:
    """Whether a class of the script is a LightningModule."""
    return not MODULES.isdisjoint(lineage_of(cls.library_bases))


def configured_schedules(pipeline: Pipeline) -> Iterator[Configured]:
    """The schedules that the script's modules return to Lightning."""
    for returned in pipeline.returned:
        if returned.method.name == "configure_optimizers" and _is_automatic(returned.cls):
            for value in options_of(returned.value):
                for scheduler, settings in _schedules(value):
                    yield Configured(scheduler, settings, returned)


def _is_automatic(cls: Class) -> bool:
    """Whether Lightning steps the optimizers and schedules of a module: it does not use manual optimization."""
    names = {node.attr for owner in cls.lineage() for node in ast.walk(owner.node) if isinstance(node, ast.Attribute)}
    return is_lightning_module(cls) and "automatic_optimization" not in names


def _schedules(value: Value) -> Iterator[tuple[Scheduler, Mapping | None]]:
    """The schedules in the dictionary of one optimizer, in several, or in a pair of lists."""
    match value:
        case Mapping():
            yield from _schedule(value.entries.get("lr_scheduler", ABSENT))
        case Sequence(items=[Sequence(), Sequence() as schedules]):
            for item in schedules.items:
                yield from _schedule(item)
        case Sequence():
            for item in value.items:
                if isinstance(item, Mapping):
                    yield from _schedules(item)
        case _:
            pass


def _schedule(value: Value) -> Iterator[tuple[Scheduler, Mapping | None]]:
    for option in options_of(value):
        if isinstance(option, Scheduler):
            yield option, None
        elif isinstance(option, Mapping):
            scheduler = option.entries.get("scheduler")
            if isinstance(scheduler, Scheduler):
                yield scheduler, option
