"""Text for formats that have no field for a value.

Paths for other programs: relative to the repository, with slashes, or as URIs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path, PurePath
from urllib.parse import quote

from lintrain.check.result import Unjudged
from lintrain.model.verdict import Outcome
from lintrain.report.machine.document import CheckReport, FindingEntry, LocationEntry
from lintrain.report.text.style import printable

NO_CHARACTERS: dict[int, str] = dict.fromkeys((0xFFFE, 0xFFFF), "\ufffd")
"""Characters that XML cannot contain."""


def message_of(entry: FindingEntry) -> str:
    """The message on one line, with the cell of a notebook and the outcome of a probe."""
    outcome = entry.verdict.outcome if entry.verdict else Outcome.INCONCLUSIVE
    verdict = "" if outcome is Outcome.INCONCLUSIVE else f" ({outcome.value} by a probe)"
    return f"{one_line(entry.message)}{cell_of(entry.location)}{verdict}"


def cell_of(at: LocationEntry) -> str:
    """The cell of a notebook and the line in it, in brackets; empty for a script."""
    return f" (cell {at.cell}, line {at.line})" if at.cell is not None else ""


def remarks_of(entry: FindingEntry) -> Iterator[str]:
    """The verdict, the consequence and the fix of a finding."""
    if entry.verdict:
        yield f"probe: {entry.verdict.outcome.value}, {one_line(entry.verdict.reason)}"
    if entry.why:
        yield f"why: {one_line(entry.why)}"
    fix = entry.help or (entry.fix.title if entry.fix else "")
    if fix:
        yield f"fix: {one_line(fix)}"


def one_line(text: str) -> str:
    """A text without line breaks, control characters and characters that cannot be encoded."""
    return printable(" ".join(text.splitlines())).translate(NO_CHARACTERS).encode("utf-8", "replace").decode()


def unjudged_files(report: CheckReport) -> Iterator[tuple[str, str]]:
    """The files that were not checked completely, each with a line about it."""
    return Unjudged.grouped(Unjudged(one.path, one.rule, one.reason) for one in report.unjudged)


STDIN = "-"


def repository_root() -> Path:
    """The root of the repository, else the current folder."""
    return _root(Path.cwd())


@lru_cache(maxsize=1)
def _root(folder: Path) -> Path:
    return next((each for each in (folder, *folder.parents) if (each / ".git").exists()), folder)


def from_root(path: str) -> str:
    """A path relative to the root of the repository, or an absolute path outside of it."""
    return path if path == STDIN else relative(Path(absolute(path)), repository_root())


def relative(path: PurePath, root: PurePath) -> str:
    """An absolute path made relative to a folder that contains it, with slashes on every system."""
    return (path.relative_to(root) if path.is_relative_to(root) else path).as_posix()


def absolute(path: str) -> str:
    """An absolute path without `..`; links are not resolved."""
    return path if path == STDIN else os.path.abspath(path)  # noqa: PTH100 - Path.absolute leaves `..` in


def uri_in(path: PurePath, root: PurePath) -> str | None:
    """The relative URI of an absolute path in a folder; None if it is elsewhere."""
    return quote(os.fsencode(relative(path, root)), safe="/") if path.is_relative_to(root) else None


def file_uri(path: PurePath) -> str:
    """The URI of an absolute path."""
    written = quote(os.fsencode(path.as_posix()), safe="/:")
    return f"file:{written}" if written.startswith("//") else f"file:///{written.removeprefix('/')}"


def folder_uri(folder: PurePath) -> str:
    """The URI of an absolute folder, with a slash at the end."""
    return file_uri(folder).removesuffix("/") + "/"
