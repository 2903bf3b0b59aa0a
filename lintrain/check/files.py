"""Reads the files of a run, one after the other, and says what remains of each."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lintrain.cache.noted import Memory, Noted, note, noted_files
from lintrain.check.copies import Copies, QuestionedProject
from lintrain.check.one_file import Reading, check_source, unreadable
from lintrain.check.result import Reported
from lintrain.source.reading import UnreadableError, read_bytes
from lintrain.startup.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from lintrain.check.check_request import CheckRequest
    from lintrain.knowledge.versions import TargetVersions
    from lintrain.source.source import Source
    from lintrain.source.suppression import Suppression


@dataclass(frozen=True, slots=True)
class ReadFile:
    """The result of reading one file: plain data, which may come from another process.

    `source` is kept where a report may speak of it, and None elsewhere: the texts of a whole repository would fill
    the memory. `notes` are remarks on how the versions were found that the file is written for, `names` the names that
    mean nothing in it. `rests_on` is all that was looked at for it.
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
        given = {os.path.abspath(path): raw for path, raw in self.request.given.items()}  # noqa: PTH100
        shown = {os.path.abspath(path): path for path in self.request.files}  # noqa: PTH100
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
        names = self.request.selection.of(path)
        rules = [rule for rule in self.request.rules if rule.name in names]
        notes = dict[str, None]()
        find_targets = partial(self._targets_of, source, notes)

        def read(find: Callable[[], TargetVersions]) -> Reading:
            return check_source(source, rules, find, self.project, self.request.go_on)

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
        if source.notebook is None:
            return targets
        from lintrain.knowledge.installs import with_installs

        return with_installs(targets, source.notebook.masked.values())


def _shown_modules(reading: Reading) -> Mapping[str, Source]:
    """The modules that findings or their reasons lie in, without the trees that other files are still read with."""
    paths = {
        location.path
        for one in reading.reported
        for location in (one.finding.location, *(reason.location for reason in one.finding.related))
    }
    return {path: source.without_tree() for path, source in reading.modules.items() if path in paths}
