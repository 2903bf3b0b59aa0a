"""The files that an agent may name: those in the folders of a workspace, links followed to their end.

workspace = Workspace.of(named, roots)    # folders of the command line, roots of the client
script = workspace.find("src/train.py")   # raises OutsideError for any path that leads out
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from lintrain.report.machine.agent import shown_path
from lintrain.report.machine.document import CheckReport, FindingEntry
from lintrain.startup.lazy_dataclass import dataclass

LONGEST_NAME = 1_000


class OutsideError(ValueError):
    """A path that cannot be used; the text says why, with the path quoted."""


@dataclass(frozen=True, slots=True)
class InWorkspace:
    """A file or folder, as a path relative to the folder of the workspace that it is in."""

    folder: str
    path: str

    @property
    def full(self) -> str:
        """The absolute path."""
        return os.path.join(self.folder, self.path)  # noqa: PTH118 - paths are strings here


@dataclass(frozen=True, slots=True)
class Workspace:
    """The folders that an agent may name files of, as real paths; may be empty."""

    folders: tuple[str, ...]

    @classmethod
    def of(cls, named: Sequence[str], roots: Iterable[str] = ()) -> Workspace:
        """The roots of the client that are in the named folders; without roots, those folders.

        Without named folders, any root counts, and the current folder is the last resort. The file system's root and
        the user's home are no workspace: everything would be in them.
        """
        allowed = [os.path.realpath(folder) for folder in named]
        listed = [os.path.realpath(path) for root in roots if (path := _path_of(root)) is not None]
        if listed:
            inside = [path for path in listed if not allowed or any(_is_in(path, each) for each in allowed)]
            return cls(tuple(dict.fromkeys(inside)))
        here = os.path.realpath(os.curdir)
        return cls(tuple(dict.fromkeys(allowed)) or (() if _is_everything(here) else (here,)))

    def find(self, named: str) -> InWorkspace:
        """A file or folder; raises OutsideError if it does not exist or is not in the workspace."""
        if not self.folders:
            raise OutsideError("there is no workspace: start the server in a project, or as `lintrain mcp FOLDER`")
        if not named or len(named) > LONGEST_NAME or "\0" in named:
            raise OutsideError("the path is empty, too long or not text")
        for folder in self.folders:
            real = os.path.realpath(os.path.join(folder, named))  # noqa: PTH118 - as above
            around = next((each for each in self.folders if _is_in(real, each)), None)
            if around is not None and Path(real).exists():
                path = os.path.relpath(real, around)
                return InWorkspace(around, f"./{path}" if path.startswith("-") else path)
        raise OutsideError(f"{shown_path(named)} is not a file or folder in the workspace")

    def holds(self, path: str, folder: str) -> bool:
        """Whether a path of a report, relative to a folder, is in the workspace."""
        real = os.path.realpath(os.path.join(folder, path))  # noqa: PTH118 - as above
        return any(_is_in(real, each) for each in self.folders)

    def own_part(self, report: CheckReport, folder: str) -> CheckReport:
        """A report without findings and locations outside of the workspace, which a link may lead to."""
        findings = tuple(
            self._own_related(one, folder) for one in report.findings if self.holds(one.location.path, folder)
        )
        return replace(report, findings=findings)

    def _own_related(self, one: FindingEntry, folder: str) -> FindingEntry:
        return replace(one, related=tuple(each for each in one.related if self.holds(each.location.path, folder)))


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(os.path.join(folder, ""))  # noqa: PTH118 - as above


def _is_everything(folder: str) -> bool:
    return folder in (os.path.dirname(folder), os.path.realpath(Path.home()))  # noqa: PTH120 - as above


def _path_of(root: str) -> str | None:
    """The path of a `file:` address; None for another address, or one on another machine."""
    try:
        parts = urlsplit(root)
    except ValueError:
        return None
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return None
    path = url2pathname(parts.path) if os.name == "nt" else unquote(parts.path)
    return path if path and "\0" not in path else None
