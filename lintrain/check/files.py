"""Reads the files of a run, one after the other, and says what remains of each.

The versions of libraries that scripts are written for.

The result of one notebook is used for its copies: a course in twelve languages has its code twelve times.

A result is used again only if it cannot have come out different. It follows from the code, the versions that it is
written for, and what the reader looked at. So the code of a copy is the same, its versions are, the project knows no
module of its imports either, and all else that was looked at is the same file for both or is there for neither.
"""

# Every copy has its accesses compared, and a `Path` costs ten times a string.
# ruff: noqa: PTH100, PTH118, PTH120

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lintrain.cache.noted import Memory, Noted, note, note_all, noted_apart, noted_files
from lintrain.check.one_file import Reading, check_source, unreadable
from lintrain.check.packages import Readable, foreign_packages
from lintrain.check.result import Reported
from lintrain.model.location import Location
from lintrain.settings.settings import Settings
from lintrain.source.configuration import Configuration
from lintrain.source.project import ModuleFile, Project
from lintrain.source.reading import UnreadableError, read_bytes
from lintrain.startup.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from lintrain.check.selection import CheckRequest, NearestSettings
    from lintrain.knowledge.versions import TargetVersions, VersionFinder
    from lintrain.source.source import Source
    from lintrain.source.suppression import Suppression


@dataclass(frozen=True, slots=True)
class ReadFile:
    """The result of reading one file: plain data, which may come from another process.

    `source` is stored if a report may show it, and None otherwise: the texts of a whole repository would fill the
    memory. `notes` are remarks on how the versions of its libraries were found, `names` the names that are undefined in
    it. `rests_on` are its dependencies.
    """

    path: str
    reading: Reading
    source: Source | None = None
    suppressions: tuple[Suppression, ...] = ()
    notes: tuple[str, ...] = ()
    names: tuple[Reported, ...] = ()
    rests_on: Noted = field(default_factory=Noted)


@dataclass(eq=False)
class FileReader:
    """Reads the files of a request; what one of them shows about the project is used for the next."""

    request: CheckRequest
    targets: Memory[Path, TargetVersions] = field(default_factory=Memory[Path, "TargetVersions"])
    project: QuestionedProject = field(init=False)
    copies: Copies = field(init=False)

    def __post_init__(self) -> None:
        given = {os.path.abspath(path): raw for path, raw in self.request.given.items()}
        shown = {os.path.abspath(path): path for path in self.request.files}
        self.project = QuestionedProject(given, shown)
        self.copies = Copies(self.project)

    def read(self, path: str) -> ReadFile:
        """The result of the rules for one file."""
        with noted_files() as noted:
            note(path)
            read = self._read(path)
        return replace(read, rests_on=noted)

    def _read(self, path: str) -> ReadFile:
        try:
            source = read_bytes(path, self.request.load(path))
        except UnreadableError as error:
            return ReadFile(path, Reading((Reported(unreadable(path, str(error), error.line)),), is_broken=True))
        names = self.request.selection_of(path).of(path)
        rules = [rule for rule in self.request.rules if rule.name in names]
        notes = dict[str, None]()
        find_targets = partial(self._targets_of, source, notes)

        def read(find: Callable[[], TargetVersions]) -> Reading:
            return check_source(
                source, rules, find, self.project, self.request.check_cancelled, is_timed=self.request.is_timed
            )

        may_have_copies = source.notebook is not None and len(self.request.files) > 1 and not self.request.given
        reading = self.copies.reading_of(source, names, find_targets, read) if may_have_copies else read(find_targets)
        self.project.forget()
        source.forget_tree()
        is_kept = reading.reported or source.suppressions or path in self.request.given
        modules = _shown_modules(reading)
        return ReadFile(
            path, replace(reading, modules=modules), source if is_kept else None, source.suppressions, tuple(notes)
        )

    def _targets_of(self, source: Source, notes: dict[str, None]) -> TargetVersions:
        """The versions that a script is written for: looked up when the first of its folder is read."""
        folder = Path(source.path).absolute().parent
        targets = self.targets.get(folder, lambda: self.request.find_targets(folder))
        notes.update(dict.fromkeys(targets.notes))
        from lintrain.knowledge.statements import statements_in
        from lintrain.knowledge.versions import with_written

        statements = statements_in(source)
        return self._with_installed(source, with_written(targets, statements) if statements else targets)

    def _with_installed(self, source: Source, targets: TargetVersions) -> TargetVersions:
        """The versions with what is known about imported packages that the tables do not cover."""
        if isinstance(source, Configuration):
            return targets  # its tree names packages that the file itself does not import
        tops = [top for top in foreign_packages(source, targets.outside) if self.project.find(source.path, top) is None]
        if self.request.packages is None or not tops:
            return targets
        allowed = Readable(Path(source.path).absolute().parent, targets)
        return replace(targets, installed=self.request.packages.reader().installed(source, tops, allowed))


def _shown_modules(reading: Reading) -> Mapping[str, Source]:
    """The modules that contain findings or their related locations, without the trees that other files still need."""
    paths = {
        location.path
        for one in reading.reported
        for location in (one.finding.location, *(reason.location for reason in one.finding.related))
    }
    return {path: source.without_tree() for path, source in reading.modules.items() if path in paths}


@dataclass(eq=False)
class Targets:
    """The versions of the libraries that the scripts of a folder are written for; each folder is examined once.

    `root` is the folder under check. What a script is written for may be set by the configuration nearest to it.
    """

    settings: Settings
    root: Path | None = None
    by_folder: NearestSettings | None = None
    _finders: dict[tuple[tuple[str, str], ...], VersionFinder] = field(
        default_factory=dict[tuple[tuple[str, str], ...], "VersionFinder"]
    )

    def __call__(self, folder: Path) -> TargetVersions:
        """The versions for the scripts of a folder."""
        nearest = self.by_folder.of_folder(str(folder)).settings if self.by_folder else self.settings
        key = tuple(sorted(nearest.target_versions.items()))
        if key not in self._finders:
            from lintrain.knowledge.versions import VersionFinder

            self._finders[key] = VersionFinder(nearest.target_versions, self.root)
        return self._finders[key].find(folder)


Question = Callable[[Project, str, str], ModuleFile | None]

LOCATION_FIELDS = {"path", "line", "column", "end_line", "end_column"}
MOST_KNOWN = 4
"""Results of the same code in different folders."""


@dataclass(eq=False)
class Questions:
    """The names that a reading asked the project for, and how; `is_answered` where one of them means a module of it.

    `accesses` is what was looked at to find out: in which folders, depends on where the script lies and how deep.
    """

    names: dict[tuple[Question, str], None] = field(default_factory=dict[tuple[Question, str], None])
    is_answered: bool = False
    accesses: Noted = field(default_factory=Noted)


@dataclass(eq=False)
class QuestionedProject(Project):
    """A project that records which names are requested from it, while a recording is active."""

    questions: Questions | None = field(init=False, default=None)

    def find(self, script: str, name: str) -> ModuleFile | None:
        """As in Project."""
        return self._answer(Project.find, script, name)

    def find_beside(self, script: str, name: str) -> ModuleFile | None:
        """As in Project."""
        return self._answer(Project.find_beside, script, name)

    @contextmanager
    def questioned(self) -> Generator[Questions]:
        """Record what is requested in the meantime."""
        self.questions = Questions()
        try:
            yield self.questions
        finally:
            self.questions = None

    def _answer(self, question: Question, script: str, name: str) -> ModuleFile | None:
        asked = self.questions
        if asked is None:
            return question(self, script, name)
        if (question, name) in asked.names:
            return None
        with noted_apart(asked.accesses):
            found = question(self, script, name)
        if found is None:
            asked.names[question, name] = None
        asked.is_answered |= found is not None
        return found


@dataclass(frozen=True, slots=True)
class Known:
    """The reading of a notebook and what it followed from; `accesses` served neither names nor versions."""

    path: str
    reading: Reading
    targets: TargetVersions | None
    questions: Questions
    accesses: Noted

    @property
    def is_for_others(self) -> bool:
        """Whether it may be used again: it depends on no module, and nothing failed."""
        return not (self.reading.modules or self.reading.crashes or self.reading.unjudged or self.questions.is_answered)


@dataclass(eq=False)
class Copies:
    """The readings of a run's notebooks; `project` is the one that they are read with."""

    project: QuestionedProject
    _known: dict[tuple[bytes, frozenset[str]], list[Known]] = field(
        default_factory=dict[tuple[bytes, frozenset[str]], list[Known]]
    )

    def reading_of(
        self,
        source: Source,
        rules: frozenset[str],
        find_targets: Callable[[], TargetVersions],
        read: Callable[[Callable[[], TargetVersions]], Reading],
    ) -> Reading:
        """The findings of a notebook, read now unless a copy of it was; `read` receives what finds the versions."""
        alike = self._known.setdefault((_code_of(source), rules), [])
        for known in alike:
            reading = _moved(known, source.path) if self._holds_for(known, source, find_targets) else None
            if reading is not None:
                return reading
        known = self._read(source, find_targets, read)
        if known.is_for_others and len(alike) < MOST_KNOWN:
            alike.append(known)
        return known.reading

    def _read(
        self,
        source: Source,
        find_targets: Callable[[], TargetVersions],
        read: Callable[[Callable[[], TargetVersions]], Reading],
    ) -> Known:
        found: list[tuple[TargetVersions, Noted]] = []

        def find_apart() -> TargetVersions:
            with noted_apart() as accesses:
                found.append((find_targets(), accesses))
            return found[-1][0]

        with noted_apart() as accesses, self.project.questioned() as questions:
            reading = read(find_apart)
        for each in (accesses, questions.accesses, *(accesses for _, accesses in found)):
            note_all(each)
        return Known(source.path, reading, found[0][0] if found else None, questions, accesses)

    def _holds_for(self, known: Known, source: Source, find_targets: Callable[[], TargetVersions]) -> bool:
        """Whether a reading cannot have come out different for a copy; what this rests on is noted."""
        if any(question(self.project, source.path, name) is not None for question, name in known.questions.names):
            return False
        if known.targets is not None and find_targets() != known.targets:
            return False
        seen = _seen_from(known, source.path)
        if seen is None:
            return False
        note_all(known.accesses)
        note_all(seen)
        return True


def _code_of(source: Source) -> bytes:
    """A digest of the code, of the lines where its cells begin and end, and of its masked lines."""
    from hashlib import blake2b

    notebook = source.notebook
    cells = [(cell.number, cell.first_line, cell.last_line) for cell in notebook.cells] if notebook else []
    masked = dict(notebook.masked) if notebook else {}
    digest = blake2b(repr((cells, masked)).encode("utf-8", "surrogatepass"))
    digest.update(source.text.encode("utf-8", "surrogatepass"))
    return digest.digest()


def _seen_from(known: Known, path: str) -> Noted | None:
    """What was looked at, from the folder of another file; None where that is something else.

    No path says whether it was made of the script's folder: each has to be the same for both, if it was and if not.
    """
    here, there = (os.path.dirname(os.path.abspath(each)) for each in (known.path, path))
    if here == there:
        return known.accesses
    moved = {each: os.path.normpath(os.path.join(there, _relative(each, here))) for each in set(known.accesses)}
    if any(each != other and (os.path.lexists(each) or os.path.lexists(other)) for each, other in moved.items()):
        return None
    seen = Noted()
    seen.asked = {moved[each] for each in known.accesses.asked}
    seen.read = {moved[each] for each in known.accesses.read}
    seen.listed = {(moved[each], patterns) for each, patterns in known.accesses.listed}
    return seen


def _relative(path: str, folder: str) -> str:
    """A path from a folder; one on another drive stays as it is."""
    try:
        return os.path.relpath(path, folder)
    except ValueError:
        return path


def _moved(known: Known, path: str) -> Reading | None:
    """The reading of a notebook with its places in a copy; None if a rule put something else into a finding."""
    from lintrain.check.plain_values import as_plain, from_plain

    try:
        words = as_plain((known.reading.reported, known.reading.training))
    except TypeError:
        return None
    reported, training = from_plain(_renamed(words, known.path, path))
    return replace(known.reading, reported=reported, training=training)


def _renamed(plain: Any, old: str, new: str) -> Any:  # Any: what JSON holds
    """Plain values with another path in the locations; those of claims are objects with the fields' names."""
    if plain.__class__ is dict:
        moved = {name: _renamed(each, old, new) for name, each in plain.items()}
        is_here = moved.keys() == LOCATION_FIELDS and moved["path"] == old
        return {**moved, "path": new} if is_here else moved
    if plain.__class__ is not list:
        return plain
    if plain[0] == Location.__name__:
        return [plain[0], new if plain[1] == old else plain[1], *plain[2:]]
    return [_renamed(each, old, new) for each in plain]
