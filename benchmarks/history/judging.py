"""What `lintrain check` says of the files before and after one fix, with the whole repository beside them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from benchmarks.history.nearness import is_near, line_after
from benchmarks.history.table import Fix, Place
from benchmarks.history.trees import TreeError, write_tree
from lintrain.report.machine.compact import expanded_finding

QUESTION = ("--isolated", "--no-respect-gitignore", "--no-cache", "--exit-zero", "--output-format", "json")

MOST_IMPORTERS = 4
"""Scripts that are checked together with the file of a fix."""

TRAINS = re.compile(r"\.backward\(|\.fit\(|\.train\(")


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether the mistake was reported before and no longer after; `trouble` says why nothing could be checked."""

    fix: Fix
    reported: bool
    silent: bool
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Checked:
    """A tree of files with the places at which one of the rules reports something."""

    folder: Path
    found: tuple[Place, ...]

    def source(self, file: str) -> str:
        """The text of a file; empty if there is none."""
        path = self.folder / file
        return path.read_text("utf-8", errors="replace") if path.is_file() else ""

    def reports(self, place: Place) -> bool:
        """Whether something was found at the place."""
        source = self.source(place.file)
        return any(found.file == place.file and is_near(source, place.line, found.line) for found in self.found)


def judge(fix: Fix, clones: Path) -> Outcome:
    """Check the trees before and after a fix."""
    with tempfile.TemporaryDirectory() as scratch:
        try:
            before = _check(fix, clones / fix.repository, f"{fix.commit}^", Path(scratch, "before"))
            after = _check(fix, clones / fix.repository, fix.commit, Path(scratch, "after"))
        except TreeError as error:
            return Outcome(fix, reported=False, silent=False, trouble=str(error))
        reported = any(before.reports(place) for place in fix.places)
        silent = not any(after.reports(_moved(place, before, after)) for place in fix.places)
    return Outcome(fix, reported, silent)


def importers(folder: Path, files: Sequence[str]) -> list[str]:
    """The smallest files of a tree that import one of these: what a module does wrong shows in the script around it."""
    stems = {path.parent.name if path.stem == "__init__" else path.stem for path in map(PurePosixPath, files)}
    pattern = re.compile(rf"^\s*(?:from|import)\b[^\n]*\b(?:{'|'.join(map(re.escape, sorted(stems)))})\b", re.MULTILINE)
    found: list[tuple[int, str]] = []
    for path in folder.rglob("*.py"):
        name = path.relative_to(folder).as_posix()
        text = path.read_text("utf-8", errors="replace")
        if name not in files and pattern.search(text) and TRAINS.search(text):
            found.append((len(text), name))
    return [name for _, name in sorted(found)[:MOST_IMPORTERS]]


def _moved(place: Place, before: Checked, after: Checked) -> Place:
    line = line_after(before.source(place.file), after.source(place.file), place.line)
    return Place(place.file, line)


def _check(fix: Fix, clone: Path, revision: str, folder: Path) -> Checked:
    write_tree(clone, revision, folder)
    files = [file for file in fix.files if (folder / file).is_file()]
    if not files:
        return Checked(folder, ())
    asked = [*files, *importers(folder, files)]
    command = [sys.executable, "-m", "lintrain", "check", *QUESTION, "--", *asked]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if not done.stdout:
        raise TreeError(f"{fix.repository}: {done.stderr.strip()[-300:]}")
    report: dict[str, Any] = json.loads(done.stdout)  # Any: what JSON holds
    whole = partial(expanded_finding, whys={})
    entries = (entry for entry in report["findings"] if entry["rule"] in fix.rules)
    places = (Place(entry["location"]["path"], entry["location"]["file_line"]) for entry in map(whole, entries))
    return Checked(folder, tuple(places))
