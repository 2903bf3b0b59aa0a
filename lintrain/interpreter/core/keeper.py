"""The readings of unused functions, each read or taken over from the reading before the last edit.

What a reading depends on is noted while it goes on (`LatestReadings` says what that is).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Generator, Sized
from contextlib import contextmanager
from dataclasses import field
from itertools import islice

from lintrain.cache.noted import noted_files
from lintrain.interpreter.core.latest_readings import KeptReading, LatestReadings, Start
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.watched import SeenNames, Watch, WatchedDict, WatchedList
from lintrain.pipeline.values.python import Function, Value
from lintrain.startup.lazy_dataclass import dataclass


@contextmanager
def kept_from_edit_to_edit(reader: Reader) -> Generator[Keeper | None]:
    """Where the unused functions are read that the reader knows in the block; None if each has to be read again."""
    latest, scope, record = reader.latest, reader.frames[0].scope, reader.record
    if latest is None or scope.stars or reader.narrowed:
        yield None  # any name may be one of a star's, any value may be known more closely
        return
    watch = Watch()
    lists = {name: WatchedList(getattr(record, name), watch) for name in record.lengths()}
    scope.names = names = SeenNames(scope.names, watch)
    reader.saved, reader.free = WatchedDict(reader.saved, watch), WatchedDict(reader.free, watch)
    for name, watched in lists.items():
        setattr(record, name, watched)
    keeper = Keeper(reader, latest, watch, names, lists, latest.lasting())
    try:
        yield keeper
    finally:
        scope.names = names.plain()
        for name, watched in lists.items():
            setattr(record, name, watched.since(0))
    latest.forget_others(keeper.used)


@dataclass(eq=False, slots=True)
class Keeper:
    """What unused functions of one file are read with, so that their readings can be kept."""

    reader: Reader
    latest: LatestReadings
    watch: Watch
    names: SeenNames
    lists: dict[str, WatchedList]
    """The lists of the record."""
    lasting: frozenset[Value]
    used: set[ast.AST] = field(default_factory=set[ast.AST])

    def read(self, function: Function, read: Callable[[], Value]) -> None:
        """Read an unused function, or take over what that gave in the reading before."""
        self.used.add(function.node)
        start, readings = _start(self.reader), self.latest.readings
        kept = readings.pop(function.node, None)
        if kept is not None and kept.function is function and kept.start == start and self._holds(kept):
            take_over(self.reader, kept)
        else:
            kept = self._recorded(function, start, read)
        if kept is not None:
            readings[function.node] = kept

    def _holds(self, kept: KeptReading) -> bool:
        """Whether everything that a reading depended on is as it was."""
        source = self.reader.record.source
        return all(self.names.bound(name) is value for name, value in kept.names.items()) and all(
            source.asked_again(question) == answer for question, answer in kept.asked.items()
        )

    def _recorded(self, function: Function, start: Start, read: Callable[[], Value]) -> KeptReading | None:
        """Read a function; what that gave, or None if it is not to be kept."""
        reader, record, asked = self.reader, self.reader.record, dict[object, object]()
        lengths = [len(each) for each in self.lists.values()]
        arithmetic, steps, defined = len(record.arithmetic), reader.steps, len(reader.defined)
        state, visited, reader.visited = _shared_state(reader), reader.visited, set()
        self.watch.is_apart, record.source.asked = True, asked
        self.watch.names.clear()
        try:
            with noted_files() as accesses:
                read()
        finally:
            record.source.asked = None
            own, reader.visited = reader.visited, visited
            visited.update(own)
        leaves_some = any(each.node not in own for each, _ in reader.defined[defined:])
        is_closed = _start(reader).surroundings == start.surroundings and state == _shared_state(reader)
        names = {name: self.names.bound(name) for name in self.watch.names}
        does_last = all(value is None or value in self.lasting for value in names.values())
        if not (self.watch.is_apart and is_closed and does_last) or leaves_some or any(accesses):
            return None
        grown = zip(self.lists.items(), lengths, strict=True)
        recorded = {name: watched.since(length) for (name, watched), length in grown if len(watched) > length}
        made = dict(islice(record.arithmetic.items(), arithmetic, None))
        return KeptReading(function, start, names, asked, reader.steps - steps, recorded, made, frozenset(own))


def _start(reader: Reader) -> Start:
    counts = (reader.guards, reader.without_grad, reader.alternatives, reader.unrolled)
    surroundings = (*counts, tuple(reader.grad_modes), tuple(reader.grad_switches))
    return Start(reader.reading, len(reader.record.events), surroundings)


def _shared_state(reader: Reader) -> tuple[int, ...]:
    """How much there is of what all code of a file shares and adds to, besides what it records."""
    record, modules = reader.record, reader.modules
    shared: tuple[Sized, ...] = (record.sources, record.chosen, record.checkpoints, reader.instances, modules.known)
    return (*map(len, shared), modules.steps)


def take_over(reader: Reader, kept: KeptReading) -> None:
    """Record what a reading gave before."""
    reader.spend(kept.steps)
    for name, recorded in kept.recorded.items():
        if recorded:
            getattr(reader.record, name).extend(recorded)
    reader.record.arithmetic.update(kept.arithmetic)
    reader.visited.update(kept.visited)
