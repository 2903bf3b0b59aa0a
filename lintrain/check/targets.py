"""The versions of libraries that scripts are written for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lintrain.settings.settings import Settings
from lintrain.startup.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from lintrain.knowledge.versions import TargetVersions, VersionFinder


@dataclass(eq=False)
class Targets:
    """The versions of the libraries that the scripts of a folder are written for; each folder is examined once."""

    settings: Settings
    _finder: VersionFinder | None = None

    def __call__(self, folder: Path) -> TargetVersions:
        """The versions for the scripts of a folder."""
        if self._finder is None:
            from lintrain.knowledge.versions import VersionFinder

            self._finder = VersionFinder(self.settings.target_versions)
        return self._finder.find(folder)
