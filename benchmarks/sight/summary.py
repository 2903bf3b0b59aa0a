"""Counts over clones: by location, by file, and by what makes the unknown values."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from benchmarks.sight.origins import Mechanism
from benchmarks.sight.questions import OTHER_TARGET, TARGET, Question
from benchmarks.sight.readings import Answer, FileReading


@dataclass(frozen=True, slots=True)
class Clone:
    """The readings of one clone."""

    name: str
    half: str
    readings: tuple[FileReading, ...]
    trouble: str = ""


def answers_of(clones: Iterable[Clone]) -> list[Answer]:
    """One answer for each location in the clones: the best of all readings that reach it."""
    return [answer for clone in clones for answer in _answers_of(clone)]


def _answers_of(clone: Clone) -> Iterator[Answer]:
    best: dict[tuple[object, ...], Answer] = {}
    for reading in clone.readings:
        for answer in reading.answers:
            # A function with a loss may be read alone, and from the script whose loop calls it.
            question = TARGET.name if answer.question == OTHER_TARGET.name else answer.question
            key = question, answer.location
            if key not in best or _preference(answer) < _preference(best[key]):
                best[key] = answer
    yield from best.values()


def _preference(answer: Answer) -> tuple[bool, int, bool]:
    """In a loop before elsewhere, known before unknown, and a function that is called before one read alone."""
    is_alone = answer.origin is not None and answer.origin.mechanism is Mechanism.PARAMETER
    return answer.question == OTHER_TARGET.name, answer.rank, is_alone


@dataclass(frozen=True, slots=True)
class Share:
    """How often a level is reached: over all locations, and as the mean over files with such locations."""

    level: str
    locations: int
    of_locations: float
    of_files: float


def shares_of(question: Question, answers: Iterable[Answer]) -> list[Share]:
    """The shares of a question's levels; empty if it is asked nowhere."""
    by_file: dict[str, Counter[str]] = defaultdict(Counter)
    for answer in answers:
        if answer.question == question.name:
            by_file[answer.location.path][answer.level] += 1
    return [_share(level, list(by_file.values())) for level in question.levels] if by_file else []


def _share(level: str, by_file: list[Counter[str]]) -> Share:
    locations = sum(counts[level] for counts in by_file)
    of_files = sum(counts[level] / counts.total() for counts in by_file) / len(by_file)
    return Share(level, locations, locations / sum(counts.total() for counts in by_file), of_files)


@dataclass(frozen=True, slots=True)
class Maker:
    """What makes unknown values: the number of files and locations that depend on it, by question, with an example."""

    mechanism: str
    name: str
    files: int
    locations: int
    questions: dict[str, int]
    example: Answer


def makers_of(answers: Iterable[Answer]) -> list[Maker]:
    """What makes the unknown values of these answers; what most files depend on comes first."""
    met: dict[tuple[str, str], list[Answer]] = defaultdict(list)
    for answer in answers:
        if answer.origin is not None:
            met[answer.origin.mechanism, answer.origin.name].append(answer)
    makers = [_maker(*key, answers) for key, answers in met.items()]
    return sorted(makers, key=lambda maker: (-maker.files, -maker.locations, maker.mechanism, maker.name))


def _maker(mechanism: str, name: str, answers: list[Answer]) -> Maker:
    files = len({answer.location.path for answer in answers})
    questions = dict(Counter(answer.question for answer in answers).most_common())
    return Maker(str(mechanism), name, files, len(answers), questions, answers[0])


@dataclass(frozen=True, slots=True)
class Seconds:
    """CPU seconds of the ordinary readings: of all files, and of one in the median, at p95 and at most."""

    files: int
    total: float
    median: float
    p95: float
    most: float


def seconds_of(clones: Iterable[Clone]) -> Seconds:
    """What reading the scripts costs."""
    taken = sorted(reading.seconds for clone in clones for reading in clone.readings) or [0.0]
    return Seconds(len(taken), sum(taken), taken[len(taken) // 2], taken[int(len(taken) * 0.95)], taken[-1])
