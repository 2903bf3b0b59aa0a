"""Findings in another file than the one that was read: a script may show what is wrong in its modules."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING

from lintrain.check.one_file import Reading
from lintrain.check.result import Reported
from lintrain.startup.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from lintrain.model.location import Location
    from lintrain.source.source import Source


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The findings of a run by module, and the modules that contain findings or related locations."""

    found: Mapping[str, list[Reported]] = field(default_factory=dict[str, list[Reported]])
    shown: Mapping[str, Source] = field(default_factory=dict[str, "Source"])

    @classmethod
    def of(cls, readings: Iterable[tuple[str, Reading]]) -> Elsewhere:
        """The findings of these results in other files than their own."""
        found: dict[str, list[Reported]] = {}
        shown: dict[str, Source] = {}
        for path, reading in readings:
            for one in reading.reported:
                locations = (one.finding.location, *(reason.location for reason in one.finding.related))
                shown.update(
                    {
                        location.path: reading.modules[location.path]
                        for location in locations
                        if location.path in reading.modules
                    }
                )
                if one.finding.location.path != path:
                    found.setdefault(one.finding.location.path, []).append(one)
        return cls(found, shown)

    def joined(self, path: str, reading: Reading) -> Reading:
        """A file's result with the findings of others in it, each mistake once; the file's own come first."""
        own = [one for one in reading.reported if one.finding.location.path == path]
        said = {_claim(one) for one in own}
        others = () if reading.is_broken else _once(self.found.get(path, ()))
        return replace(reading, reported=(*own, *(one for one in others if _claim(one) not in said)))

    def readings(self, asked_for: Collection[str]) -> Iterator[tuple[str, Source, Reading]]:
        """The modules with findings that were not requested, in order."""
        for path in sorted(self.found.keys() - asked_for):
            if path in self.shown:
                yield path, self.shown[path], Reading(_once(self.found[path]))


def _once(reported: Iterable[Reported]) -> tuple[Reported, ...]:
    first: dict[tuple[str, Location, str | None], Reported] = {}
    for one in reported:
        first.setdefault(_claim(one), one)
    return tuple(first.values())


def _claim(one: Reported) -> tuple[str, Location, str | None]:
    """What is equal if two scripts show the same mistake in a module."""
    return one.finding.rule, one.finding.location, one.finding.subject
