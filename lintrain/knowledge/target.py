"""Which versions of a package a project runs on."""

from __future__ import annotations

from typing import Protocol

from lintrain.installed.facts import RUNNING
from lintrain.startup.lazy_dataclass import dataclass

NEWEST_KNOWN = "the newest version that lintrain knows"
"""The source of a target that no file states."""

INTERPRETER = RUNNING
"""The source of a target that is only installed: the script may run elsewhere."""

ENVIRONMENTS = frozenset({".venv", "venv", INTERPRETER})
"""The sources that hold the package itself; the others are files, which require it."""

Version = tuple[int, int]
"""A minor version, `(4, 46)`. The tables contain one patch version of each: patches do not change parameters."""


@dataclass(frozen=True, slots=True)
class Target:
    """The versions of a package that a project may run on, oldest first, as far as the tables cover them.

    `text` is the version in the source (`4.46.3`, `>=4.40,<5`) and `source` its location (`requirements.txt:3`). More
    than one version means that the source leaves it open: a claim must hold in all of them. `is_beyond`: the source
    names a newer version than the tables cover. The newest covered one is used for it, and it may accept more.
    `is_installed`: the version, or the last one of several, is that of an installed package.
    """

    versions: tuple[Version, ...]
    text: str
    source: str
    is_beyond: bool = False
    is_installed: bool = False

    @property
    def is_assumed(self) -> bool:
        """Whether nothing states a version, so that the newest is assumed."""
        return self.source == NEWEST_KNOWN

    @property
    def shown(self) -> str:
        """The version as messages name it, and whether the project states it."""
        if self.is_assumed:
            return f"newest assumed: {self.text}"
        return f"{'installed' if self.source == INTERPRETER else 'here'}: {self.text}"

    def origin(self, package: str) -> str:
        """Where the version comes from, as a sentence: a file requires it, or it is installed; empty if assumed."""
        if self.is_assumed:
            return ""
        if not self.is_installed:
            return f"{self.source} requires {package} {self.text}"
        files, _, environment = self.source.rpartition(", ")
        required, _, version = self.text.rpartition(", ")
        where = "the environment that lintrain runs in" if environment == INTERPRETER else f"`{environment}`"
        if not files or not required:
            return f"{package} {version} is installed in {where}"
        return f"{files} requires {package} {required}, and {version} is installed in {where}"


class Targets(Protocol):
    """Returns the target of a package by its name; None if its version is outside the tables. A plain dict is one."""

    def get(self, package: str, /) -> Target | None:
        """The target of a package."""
        ...


def written(version: Version) -> str:
    """A version in its usual form: `4.46`."""
    return f"{version[0]}.{version[1]}"
