"""The training scripts of a clone: each is read as a check reads it, and a second time for the origins."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.sight.names import kind_of
from benchmarks.sight.origins import Mechanism, Origin, Origins
from benchmarks.sight.questions import Asked, asked_in
from benchmarks.sight.replacing import watched
from benchmarks.sight.tracing import traced
from lintrain import read
from lintrain.check.clock import Clock, TimeSpentError
from lintrain.check.imported_training import imports_training
from lintrain.check.tiers import names_library
from lintrain.knowledge.versions import TargetVersions, find_versions
from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.python import Instance, Mapping, Sequence, Value, options_of
from lintrain.source.project import Project
from lintrain.source.reading import UnreadableError, read_bytes
from lintrain.source.source import Source
from lintrain.source.training_syntax import may_train, runs_itself

SECONDS = 20.0
"""CPU time for one reading of one file; more than a check has, since a busy machine must not change the counts."""

SKIPPED = frozenset({".git", ".ipynb_checkpoints", ".venv", "node_modules", "site-packages", "venv"})
"""Folders with files that are not the repository's own."""

NO_TIME, NO_STEPS = "out of time", "out of steps"

Key = tuple[str, Location]
"""A question and a location."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What is known at one location, and the origin of what is not."""

    question: str
    location: Location
    level: str
    rank: int
    code: str
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class FileReading:
    """What one script gave, in CPU seconds of the ordinary reading; `trouble` says why it could not be read."""

    path: str
    seconds: float
    answers: tuple[Answer, ...] = ()
    trouble: str = ""


def readings_of(folder: Path) -> Iterator[FileReading]:
    """The readings of every training script of a clone."""
    read.load()
    project, targets = Project(), find_versions(folder)
    for path in scripts_in(folder):
        source = _source(path)
        if source is not None and _trains(source, project):
            yield _reading(source, targets, project)


def scripts_in(folder: Path) -> list[Path]:
    """The Python files and notebooks of a clone."""
    found = (path for suffix in ("py", "ipynb") for path in folder.rglob(f"*.{suffix}"))
    return sorted(path for path in found if path.is_file() and SKIPPED.isdisjoint(path.relative_to(folder).parts))


def _source(path: Path) -> Source | None:
    raw = path.read_bytes()
    if not names_library(raw):
        return None
    with suppress(UnreadableError, SyntaxError, ValueError, RecursionError):
        source = read_bytes(str(path.absolute()), raw)
        return source if not source.is_too_large and source.tree.body else None
    return None


def _trains(source: Source, project: Project) -> bool:
    """Whether every rule applies to a file, as `rules_concerned` decides."""
    if source.holds_unit_tests:
        return False
    return source.cached(may_train) or (runs_itself(source) and imports_training(source, project))


def _reading(source: Source, targets: TargetVersions, project: Project) -> FileReading:
    started = time.process_time()
    with watched() as items:
        pipeline, trouble = _read(source, targets, project)
    seconds = time.process_time() - started
    if pipeline is None:
        return FileReading(source.path, seconds, trouble=trouble)
    best = _best(asked_in(pipeline, items))
    codes = {location: " ".join(pipeline.code(location).split()) for _, location in best}
    pipeline.circles.end()
    is_open = any(asked.question.is_open(asked.level) for asked in best.values())
    origins = _origins(source, targets, project) if is_open else {}
    answers = (_answer(asked, codes[asked.location], origins) for asked in best.values())
    return FileReading(source.path, seconds, tuple(answers))


def _read(source: Source, targets: TargetVersions, project: Project) -> tuple[Pipeline | None, str]:
    try:
        with Clock(SECONDS):
            pipeline = read.read_pipeline(source, targets, project)
    except TimeSpentError:
        return None, NO_TIME
    except Exception as error:  # noqa: BLE001 - a script that the reader fails on is listed, and the others are read
        return None, f"{type(error).__name__}: {error}"
    return (None, NO_STEPS) if pipeline.is_exhausted else (pipeline, "")


def _best(asked: Iterable[Asked]) -> dict[Key, Asked]:
    """Each question once for each location: the reading that knows most, if the code is read several times."""
    best: dict[Key, Asked] = {}
    for each in asked:
        key = each.question.name, each.location
        if key not in best or each.rank < best[key].rank:
            best[key] = each
    return best


def _origins(source: Source, targets: TargetVersions, project: Project) -> dict[Key, Origin]:
    with traced() as origins:
        pipeline, trouble = _read(source, targets, project)
        if pipeline is None:
            # Objects of their own for all unknown values cost time and memory, but nothing else may happen.
            assert trouble in {NO_TIME, NO_STEPS}, f"{source.path}: {trouble}"
            return {}
        best = _best(asked_in(pipeline, origins.items))
        found = {key: _origin_of(origins, asked.value) for key, asked in best.items()}
        pipeline.circles.end()
    return found


def _origin_of(origins: Origins, value: Value) -> Origin:
    other = Origin(Mechanism.OTHER, kind_of(options_of(value)[-1]), value.origin)
    return origins.first(_with_contents(origins, value)) or other


def _with_contents(origins: Origins, value: Value) -> Iterator[Value]:
    """A value, then what is inside of it, the rows of an own data set too."""
    yield value
    for option in options_of(value):
        match option:
            case Instance(cls=cls) if cls.node in origins.items:
                yield from _with_contents(origins, origins.items[cls.node])
            case Sequence(items=items):
                yield from items
            case Mapping(entries=entries):
                yield from entries.values()
            case _:
                pass


def _answer(asked: Asked, code: str, origins: dict[Key, Origin]) -> Answer:
    name, location = asked.question.name, asked.location
    origin = origins.get((name, location)) if asked.question.is_open(asked.level) else None
    return Answer(name, location, asked.level, asked.rank, code, origin)
