"""Where a project ends: which links lead out of it, and which programs are not its own.

Nested nodes, found by location without visiting all of them.
"""

# The start of every check may ask here, and `pathlib` with it.
# ruff: noqa: PTH100, PTH111, PTH113, PTH114, PTH117, PTH118, PTH120

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from lintrain.model.location import Location

PROJECT_MARKS = ("pyproject.toml", "setup.py", "setup.cfg", ".git", "requirements.txt", "environment.yml")
"""What marks the root folder of a project."""


def project_around(folder: str) -> str | None:
    """The nearest marked folder from here upwards; None if there is none, or only the user's home or one above."""
    here, home = os.path.abspath(folder), os.path.expanduser("~")
    while not is_within(home, here):
        if any(os.path.lexists(os.path.join(here, mark)) for mark in PROJECT_MARKS):
            return here
        if here == os.path.dirname(here):
            break
        here = os.path.dirname(here)
    return None


def is_within(path: str, folder: str) -> bool:
    """Whether a path is a folder or is below it, links not followed."""
    return os.path.join(path, "").startswith(os.path.join(folder, ""))


def way_out(path: str) -> str | None:
    """The target of a path that a link leads out of its project; None for one that stays.

    A link to a file outside of any project has to stay in its folder; one to a folder may lead anywhere.
    """
    whole = here = os.path.abspath(path)
    while here != os.path.dirname(here):
        folder = os.path.dirname(here)
        if os.path.islink(here):
            bound = project_around(folder) or (folder if here == whole else None)
            if bound and not is_within(os.path.realpath(here), os.path.realpath(bound)):
                return os.path.realpath(whole)
        here = folder
    return None


def safe_path(*folders: str) -> list[str]:
    """The folders searched for programs: those of PATH, without relative ones and those in a project named here.

    An entry like `.` would start what a repository calls `git`, as Windows does without any.
    """
    projects = [
        bound for each in folders if (found := project_around(each)) for bound in (found, os.path.realpath(found))
    ]
    entries = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return [entry for entry in entries if os.path.isabs(entry) and not any(_is_in(entry, each) for each in projects)]


def find_program(name: str, *folders: str) -> str | None:
    """The program of that name on the search path, outside of the projects around these folders; None without one."""
    file = f"{name}.exe" if os.name == "nt" else name
    found = (os.path.join(entry, file) for entry in safe_path(*folders))
    return next((each for each in found if os.path.isfile(each) and os.access(each, os.X_OK)), None)


def _is_in(entry: str, project: str) -> bool:
    return is_within(os.path.normpath(entry), project) or is_within(os.path.realpath(entry), project)


Node = TypeVar("Node")


class Nesting(Generic[Node]):
    """Nodes of one file by location, sorted once."""

    def __init__(self, nodes: Iterable[tuple[Location, Node]], around: Sequence[int] | None = None) -> None:
        """`around` are the numbers of the nodes right around each, -1 for none, of nodes that are in order already."""
        ordered = sorted(nodes, key=lambda each: _start_and_size(each[0])) if around is None else list(nodes)
        self._locations = [location for location, _ in ordered]
        self._nodes = [node for _, node in ordered]
        self._starts = [(location.line, location.column) for location in self._locations]
        self._around = _outer_ones(self._locations) if around is None else around

    def innermost(self, location: Location) -> Node | None:
        """The innermost of the nodes around a location; None if there is none."""
        return next(self.around(location), None)

    def around(self, location: Location) -> Iterator[Node]:
        """All nodes around a location, the innermost first."""
        index = bisect_right(self._starts, (location.line, location.column)) - 1
        while index >= 0:
            if self._locations[index].holds(location):
                yield self._nodes[index]
            index = self._around[index]


def _start_and_size(location: Location) -> tuple[int, int, int, int]:
    return location.line, location.column, -location.end_line, -location.end_column


def _outer_ones(locations: list[Location]) -> list[int]:
    """For each location the number of the one directly around it, -1 if there is none."""
    found: list[int] = []
    open_ones: list[int] = []
    for index, location in enumerate(locations):
        while open_ones and not locations[open_ones[-1]].holds(location):
            open_ones.pop()
        found.append(open_ones[-1] if open_ones else -1)
        open_ones.append(index)
    return found
