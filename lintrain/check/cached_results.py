"""Cached results of single files, for files of which no dependency has changed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lintrain._version import __version__
from lintrain.builtin import UNREADABLE_FILE
from lintrain.cache.noted import Noted
from lintrain.cache.runs import python_and_variables
from lintrain.cache.store import Store
from lintrain.cache.watch import unrecorded
from lintrain.cache.whole_files import digest, digest_of_code, digest_of_program
from lintrain.check.files import ReadFile
from lintrain.check.names.ruff import find_ruff
from lintrain.check.one_file import NO_RULE_TIME, NO_TIME, Reading
from lintrain.check.result import Unjudged
from lintrain.rulebook import rule_folder
from lintrain.source.project import as_shown
from lintrain.source.reading import UnreadableError, load_bytes, read_bytes

if TYPE_CHECKING:
    from lintrain.check.selection import CheckRequest


class CachedResults:
    """The results of a request's files in a store.

    What a file shows depends on the rules that are asked, and on the names by which the user knows the modules that it
    is read with; levels, comments that nothing is silenced by, baselines and verdicts come after it.
    """

    def __init__(self, store: Store, request: CheckRequest) -> None:
        self.store = store
        self.request = request
        shown = ((os.path.abspath(path), path) for path in request.files)  # noqa: PTH100 - thousands of paths
        self._odd: Mapping[str, str] = {path: name for path, name in shown if name != as_shown(path)}
        self._rules: dict[tuple[frozenset[str], str], str] = {}
        self._own = {rule.name: rule.digest for rule in request.rules if rule.digest}

    def find(self) -> dict[str, ReadFile]:
        """The cached results of the files, by path."""
        found = ((path, self._find(path)) for path in self.request.files)
        return {path: file for path, file in found if file is not None}

    def keep(self, files: Iterable[ReadFile]) -> None:
        """Cache the results of files that were read."""
        found: dict[str, tuple[Any, Noted]] = {}
        for file in files:
            if is_lasting(file.reading):
                try:
                    result = self._as_json(file)
                except TypeError:
                    continue  # a rule put something into its finding that would not come back as it was
                found[_known_as(file.path)] = result, file.rests_on
        self.store.keep(found)

    def _find(self, path: str) -> ReadFile | None:
        known = self.store.find(_known_as(path))
        if known is None:
            return None
        result, accesses = known
        try:
            if result["rules"] != self._rules_of(path) or result["odd"] != self._odd_among(
                access.path for access in accesses
            ):
                return None
            return _file(path, result)
        except (UnreadableError, KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError):
            return None

    def _as_json(self, file: ReadFile) -> Any:
        """A file as JSON holds it; raises TypeError where that cannot be."""
        reading = file.reading
        is_silent = not (reading.reported or reading.training or file.suppressions or file.names or file.notes)
        result = {
            "rules": self._rules_of(file.path),
            "odd": self._odd_among(file.rests_on.read),
            "is_exhausted": reading.is_exhausted,
            "is_broken": reading.is_broken,
            "unjudged": [[one.rule, one.spent] for one in reading.unjudged],
            "has_source": file.source is not None,
        }
        if is_silent:
            return result
        from lintrain.check.plain_values import as_plain

        words = (reading.reported, reading.training, file.suppressions, file.names, file.notes)
        return {**result, "modules": list(reading.modules), "words": as_plain(words)}

    def _odd_among(self, paths: Iterable[str]) -> Mapping[str, str]:
        """The files that the user knows by another name than reports give them by themselves."""
        return {path: self._odd[path] for path in paths if path in self._odd} if self._odd else {}

    def _rules_of(self, path: str) -> str:
        names = self.request.selection_of(path).of(path)
        versions = self.request.versions_of(path)
        key = names, repr(sorted(versions.items())) if versions else ""
        if key not in self._rules:
            own = "".join(f" {self._own[name]}" for name in sorted(names & self._own.keys()))
            self._rules[key] = digest((" ".join(sorted(names)) + own + key[1]).encode()).decode("ascii")
        return self._rules[key]


def store_in(folder: str, around: Sequence[object]) -> Store | None:
    """The results in a folder that this lintrain and ruff made in this environment and `around` the same settings.

    None if ruff is not installed: what it would find depends on whether it comes later.
    """
    ruff = find_ruff()
    if ruff is None:
        return None
    package = os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120 - every check asks this
    with unrecorded():
        code = digest_of_code(package, str(rule_folder()), __version__), digest_of_program(ruff)
    return Store(folder, repr((__version__, code, python_and_variables(), *around)))


def is_lasting(reading: Reading) -> bool:
    """Whether a file will show the same next time.

    Not if lintrain failed, if its time was over, or if the file could not be read.
    """
    is_cut = any(one.spent in (NO_TIME, NO_RULE_TIME) for one in reading.unjudged)
    return (
        not reading.crashes
        and not is_cut
        and not any(one.finding.rule == UNREADABLE_FILE.name for one in reading.reported)
    )


def _known_as(path: str) -> str:
    """The file under the name that the user knows it by, and in a folder that can be looked for."""
    return os.path.join(os.getcwd(), path)  # noqa: PTH118, PTH109 - as above


def _file(path: str, result: Any) -> ReadFile:
    """Raises the errors of content that lintrain did not write."""
    source = read_bytes(path, load_bytes(path)) if result["has_source"] else None
    unjudged = tuple(Unjudged(path, rule, spent) for rule, spent in result["unjudged"])
    if "words" not in result:
        reading = Reading(is_exhausted=result["is_exhausted"], is_broken=result["is_broken"], unjudged=unjudged)
        return ReadFile(path, reading, source)
    from lintrain.check.plain_values import from_plain

    reported, training, suppressions, names, notes = from_plain(result["words"])
    modules = {each: read_bytes(each, load_bytes(each)) for each in result["modules"]}
    reading = Reading(reported, (), result["is_exhausted"], result["is_broken"], modules, training, unjudged)
    return ReadFile(path, reading, source, suppressions, notes, names)
