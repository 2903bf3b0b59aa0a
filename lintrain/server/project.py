"""The effective configuration of a file: its project's, overridden by the editor's settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path

from lintrain.check.baseline import Baseline, read_baseline
from lintrain.check.selection import Choice, Selection, choose, configured, known_names
from lintrain.knowledge.versions import TargetVersions, find_versions
from lintrain.rulebook import RuleFile, load_rules
from lintrain.server.client_settings import ClientSettings
from lintrain.settings.loading import BASELINE_FILE, OWN_FILES, PROJECT_FILE, find_baseline, load_settings
from lintrain.settings.settings import Settings, UsageError
from lintrain.source.discovery import Excludes
from lintrain.source.reparsing import LatestTree
from lintrain.startup.lazy_dataclass import dataclass

CONFIGURATION_FILES = (*OWN_FILES, PROJECT_FILE, BASELINE_FILE)

VERSION_FILES = (
    "uv.lock",
    "poetry.lock",
    "pdm.lock",
    "Pipfile.lock",
    "requirements.txt",
    "setup.cfg",
    "environment.yml",
)
"""Files that may determine the library versions of a project."""

Stamp = tuple[tuple[str, int, int], ...]
"""The existing configuration files, with modification time and size."""


@dataclass(frozen=True, slots=True)
class EffectiveConfiguration:
    """The effective configuration of a folder; `problem` is an error because of which an older one is used."""

    rules: tuple[RuleFile, ...]
    selection: Selection
    excludes: Excludes
    target_versions: Mapping[str, str]
    baseline: Baseline | None = None
    problem: str = ""
    documentation: str | None = None


@dataclass(eq=False)
class Projects:
    """The effective configuration by folder; its files are checked for changes each time, which takes microseconds."""

    trees: LatestTree = field(default_factory=LatestTree)
    _known: dict[tuple[str, int], tuple[Stamp, EffectiveConfiguration]] = field(
        default_factory=dict[tuple[str, int], "tuple[Stamp, EffectiveConfiguration]"]
    )
    _settings: dict[int, ClientSettings] = field(default_factory=dict[int, ClientSettings])
    _targets: dict[tuple[Path, str], tuple[Stamp, TargetVersions]] = field(
        default_factory=dict[tuple[Path, str], "tuple[Stamp, TargetVersions]"]
    )

    def of(self, path: str, client: ClientSettings) -> EffectiveConfiguration:
        """The effective configuration of a file."""
        folder = os.path.dirname(path)  # noqa: PTH120 - asked at every keystroke
        key = (folder, id(client))
        self._settings[id(client)] = client  # keeps the object alive, so that its id stays unique
        named = client.configuration
        files = [*([named] if named else []), *_candidates(folder, CONFIGURATION_FILES)]
        known = self._known.get(key)
        baseline = known[1].baseline if known else None
        stamp = _stamp([*files, str(baseline.file)] if baseline else files)
        if known is None or known[0] != stamp:
            in_force = _read(folder, client, known[1] if known else None)
            if in_force.baseline:
                stamp = _stamp([*files, str(in_force.baseline.file)])
            self._known[key] = known = stamp, in_force
        return known[1]

    def targets(self, folder: Path, in_force: EffectiveConfiguration) -> TargetVersions:
        """The versions that the scripts of a folder are written for."""
        key = (folder, repr(sorted(in_force.target_versions.items())))
        stamp = _stamp(_candidates(str(folder), (*VERSION_FILES, PROJECT_FILE)))
        known = self._targets.get(key)
        if known is None or known[0] != stamp:
            self._targets[key] = known = stamp, find_versions(folder, in_force.target_versions)
        return known[1]

    def forget(self) -> None:
        """Read everything again."""
        self._known.clear()
        self._targets.clear()


def _candidates(folder: str, names: tuple[str, ...]) -> list[str]:
    found: list[str] = []
    while True:
        found += [os.path.join(folder, name) for name in names]  # noqa: PTH118 - as above
        above = os.path.dirname(folder)  # noqa: PTH120 - as above
        if above == folder:
            return found
        folder = above


def _stamp(files: list[str]) -> Stamp:
    stamp: list[tuple[str, int, int]] = []
    for file in files:
        try:
            state = os.stat(file)  # noqa: PTH116 - as above
        except OSError:
            continue
        stamp.append((file, state.st_mtime_ns, state.st_size))
    return tuple(stamp)


def _read(folder: str, client: ClientSettings, before: EffectiveConfiguration | None) -> EffectiveConfiguration:
    """The configuration from its files; if they have errors, the previous one, or the default."""
    rules = load_rules()
    problem = ""
    try:
        settings = load_settings([folder], Path(client.configuration) if client.configuration else None)
        file = find_baseline(settings, Path(folder))
        return replace(_chosen(rules, settings, client), baseline=read_baseline(file) if file else None)
    except UsageError as error:
        problem = str(error)
    if before is not None:
        return replace(before, problem=problem)
    try:
        chosen = _chosen(rules, Settings(root=Path(folder)), client)
    except UsageError as error:  # the editor's own settings
        chosen, problem = _chosen(rules, Settings(root=Path(folder)), ClientSettings()), str(error)
    return replace(chosen, problem=problem)


def _chosen(rules: tuple[RuleFile, ...], settings: Settings, client: ClientSettings) -> EffectiveConfiguration:
    editor = Choice(
        "the editor's settings", str(settings.root), client.select, list(client.extend_select), list(client.ignore)
    )
    preview = settings.preview if client.preview is None else client.preview
    in_preview = frozenset[str]() if preview else frozenset(rule.name for rule in rules if rule.is_preview)
    selection = choose(known_names(rules), configured(settings), editor, in_preview)
    excludes = Excludes((*settings.exclude, *settings.extend_exclude), str(settings.root))
    return EffectiveConfiguration(
        rules, selection, excludes, settings.target_versions, documentation=settings.documentation
    )
