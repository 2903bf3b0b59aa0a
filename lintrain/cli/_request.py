"""What a run over some files is asked to do, as options and settings say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lintrain.check.crew import processors
from lintrain.check.request import Request
from lintrain.check.selection import Selection
from lintrain.cli._options import CheckOptions, excludes_of, read_stdin
from lintrain.core.lazy_dataclass import dataclass
from lintrain.rulebook import RuleFile
from lintrain.settings.loading import common_folder, find_baseline
from lintrain.settings.settings import Settings

if TYPE_CHECKING:
    from lintrain.check.baseline import Baseline
    from lintrain.knowledge.versions import TargetVersions, VersionFinder


def request_of(
    options: CheckOptions, settings: Settings, rules: Sequence[RuleFile], selection: Selection, files: Sequence[str]
) -> Request:
    """The request; raises UsageError where the project's baseline cannot be read."""
    return Request(
        files,
        rules,
        selection,
        Targets(settings),
        {files[0]: read_stdin()} if options.reads_stdin and files else {},
        excludes_of(settings).leave_out_within,
        speaks_of_modules=not options.reads_stdin,
        knows_verdicts=not options.no_cache,
        baseline=baseline_of(options, settings),
        jobs=settings.jobs or processors(),
    )


def baseline_of(options: CheckOptions, settings: Settings) -> Baseline | None:
    """The findings that the project puts off; raises UsageError."""
    if options.no_baseline:
        return None
    file = options.baseline
    if file is None and not options.isolated:
        file = find_baseline(settings, common_folder(options.named))
    if file is None:
        return None
    from lintrain.check.baseline import read_baseline

    return read_baseline(file)


@dataclass(eq=False)
class Targets:
    """The versions of the libraries that the scripts of a folder are written for; no folder is looked at twice."""

    settings: Settings
    _finder: VersionFinder | None = None

    def __call__(self, folder: Path) -> TargetVersions:
        if self._finder is None:
            from lintrain.knowledge.versions import VersionFinder

            self._finder = VersionFinder(self.settings.target_versions)
        return self._finder.find(folder)
