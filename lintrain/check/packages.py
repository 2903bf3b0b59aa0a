"""Which installed packages are read for a script, and what reads them: loaded when a script imports one."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lintrain.startup.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from lintrain.installed.environments import InstalledPackage
    from lintrain.installed.packages import PackageReader
    from lintrain.knowledge.versions import TargetVersions
    from lintrain.source.source import Source

ALIASES = {"pytorch_lightning": "lightning"}
"""Older names of packages with tables."""

NEVER_READ = frozenset(
    {
        *("matplotlib", "numpy", "pandas", "PIL", "requests", "scipy", "sklearn", "tqdm", "wandb", "yaml"),
        *("tensorflow", "tf_keras"),
    }
)
"""Packages that build on no library of training, and TensorFlow, whose Keras the tables cover."""


def foreign_packages(source: Source, outside: Collection[str]) -> list[str]:
    """The packages that a file imports and that the tables do not cover, or not in the version of the project."""
    from lintrain.knowledge.tables import COVERED_PACKAGES
    from lintrain.source.training_syntax import imported_packages

    imported = imported_packages(source)
    known = sys.stdlib_module_names | NEVER_READ
    return sorted(top for top in imported - known if top in outside or ALIASES.get(top, top) not in COVERED_PACKAGES)


@dataclass(frozen=True, slots=True)
class Readable:
    """The installed packages that are read for the scripts of a folder."""

    folder: Path
    targets: TargetVersions

    def may_run_on(self, package: InstalledPackage) -> bool:
        """Whether it builds on a library of training, or is one, in a version that the project may run on."""
        from lintrain.knowledge.versions import allows

        if package.name in self.targets.outside:
            return self.targets.may_run_on(package.name, package.version, is_sure=not package.is_beside_us)
        if not package.builds_on_training:
            return False
        return not package.is_beside_us or allows(self.folder, package.distribution, package.version)


@dataclass(eq=False)
class Packages:
    """Makes what reads installed packages, when a script imports one; `cache` is the folder of earlier results.

    Where it does not `wait`, a script is checked with what is cached.
    """

    cache: str | None
    waits: bool = True
    _reader: PackageReader | None = None

    def __getstate__(self) -> tuple[str | None, bool]:
        """Another process has a reader of its own."""
        return self.cache, self.waits

    def __setstate__(self, state: tuple[str | None, bool]) -> None:
        self.cache, self.waits = state
        self._reader = None

    def reader(self) -> PackageReader:
        """The reader of this process."""
        if self._reader is None:
            from lintrain.installed.packages import PackageReader

            self._reader = PackageReader(self.cache, self.waits)
        return self._reader

    def end(self) -> None:
        """End the process that reads."""
        if self._reader is not None:
            self._reader.stop()

    @property
    def missing(self) -> Mapping[InstalledPackage, list[str]]:
        """The names that it did not wait for."""
        return self._reader.missing if self._reader is not None else {}

    @property
    def seconds(self) -> float:
        """How long a run waited for packages."""
        return self._reader.seconds if self._reader is not None else 0.0
