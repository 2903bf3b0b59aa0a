"""The effective configuration of a file: its project's, overridden by the editor's settings.

The settings of the editor, which override the project's configuration.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from lintrain.cache.folder import store_folder
from lintrain.check.baseline import Baseline, read_baseline
from lintrain.check.own_rules import own_rules, rule_files, trust_file
from lintrain.check.selection import Choice, Selection, chosen_for
from lintrain.knowledge.versions import TargetVersions, find_versions
from lintrain.rulebook import RuleFile, RuleFileError, find_rules
from lintrain.settings.loading import BASELINE_FILE, OWN_FILES, PROJECT_FILE, find_baseline, load_settings
from lintrain.settings.settings import Settings, UsageError
from lintrain.settings.table import Flag, Kind, Names, Number, Text
from lintrain.source.discovery import Excludes
from lintrain.source.latest_tree import LatestTree
from lintrain.startup.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from lintrain.cache.store import Store

SECTION = "lintrain"


def camel(name: str) -> str:
    """The name of a field in camel case, as clients write it."""
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


def snake(name: str) -> str:
    """The field of a name in camel case."""
    return "".join(f"_{sign.lower()}" if sign.isupper() else sign for sign in name)


@dataclass(frozen=True, slots=True)
class ProbeSettings:
    """The options that the code lens passes to `lintrain probe`."""

    python: str | None = None
    arguments: list[str] = field(default_factory=list[str])
    also: list[str] = field(default_factory=list[str])
    timeout: float | None = None
    offline: bool = False


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """The settings; `configuration` is a file that replaces the project's configuration."""

    enable: bool = True
    configuration: str | None = None
    select: list[str] | None = None
    extend_select: list[str] = field(default_factory=list[str])
    ignore: list[str] = field(default_factory=list[str])
    preview: bool | None = None
    fix_all: bool = True
    code_lens: bool = True
    probe: ProbeSettings = field(default_factory=ProbeSettings)


KINDS: Mapping[str, Kind] = {
    "enable": Flag(),
    "configuration": Text(),
    "select": Names(),
    "extendSelect": Names(),
    "ignore": Names(),
    "preview": Flag(),
    "fixAll": Flag(),
    "codeLens": Flag(),
}
PROBE_KINDS: Mapping[str, Kind] = {
    "python": Text(),
    "arguments": Names(),
    "also": Names(),
    "timeout": Number(),
    "offline": Flag(),
}
"""What the settings may hold, by the names that clients write."""


def read_client_settings(given: object) -> tuple[ClientSettings, list[str]]:
    """The settings that a client sends, and their errors; wrong settings are ignored."""
    if not given:
        return ClientSettings(), []
    if not isinstance(given, Mapping):
        return ClientSettings(), [f"the editor's settings `{SECTION}`: must be a table, not `{given}`"]
    table = dict(cast("Mapping[str, object]", given))
    problems: list[str] = []
    probe = table.pop("probe", None)
    values = _accepted(table, KINDS, SECTION, problems)
    if isinstance(probe, Mapping):
        wanted = dict(cast("Mapping[str, object]", probe))
        values["probe"] = ProbeSettings(**_accepted(wanted, PROBE_KINDS, f"{SECTION}.probe", problems))
    elif probe is not None:
        problems.append(f"the editor's setting `{SECTION}.probe`: must be a table, not `{probe}`")
    return ClientSettings(**values), problems


def _accepted(
    given: Mapping[str, object], kinds: Mapping[str, Kind], section: str, problems: list[str]
) -> dict[str, Any]:  # Any: each kind has checked its value
    """The settings of the right type by field; the others are added to the problems. None counts as missing."""
    accepted: dict[str, Any] = {}
    for name, value in given.items():
        if value is None:
            continue
        kind = kinds.get(name)
        if kind is None:
            near = get_close_matches(name, [*kinds, "probe"], n=1, cutoff=0.5)
            hint = f" (did you mean `{near[0]}`?)" if near else ""
            problems.append(f"the editor's setting `{section}.{name}` is unknown{hint}")
        elif found := list(kind.problems(f"{section}.{name}", value)):
            problems += [f"the editor's setting {problem}" for problem in found]
        else:
            accepted[snake(name)] = value
    return accepted


CONFIGURATION_FILES = (*OWN_FILES, PROJECT_FILE, BASELINE_FILE)

VERSION_FILES = (
    "uv.lock",
    "poetry.lock",
    "pdm.lock",
    "Pipfile.lock",
    "requirements.txt",
    *("setup.cfg", "setup.py", "Pipfile", "Dockerfile"),
    *("environment.yml", "environment.yaml"),
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
    sources: tuple[str, ...] = ()


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
        stamp = _stamp([*files, *_read_besides(known[1])] if known else files)
        if known is None or known[0] != stamp:
            in_force = _read(folder, client, known[1] if known else None)
            stamp = _stamp([*files, *_read_besides(in_force)])
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

    def store_of(self, in_force: EffectiveConfiguration) -> Store | None:
        """Where the results of saved documents are cached: apart from those of commands, which show other paths."""
        from lintrain.check.cached_results import store_in

        return store_in(store_folder("files"), ("editor", sorted(in_force.target_versions.items())))

    def own_rule(self, name: str) -> RuleFile | None:
        """The rule of that name that a project brings itself and that is trusted."""
        rules = (rule for _, in_force in self._known.values() for rule in in_force.rules)
        return next((rule for rule in rules if rule.digest and rule.name == name), None)

    def forget(self) -> None:
        """Read everything again."""
        self._known.clear()
        self._targets.clear()


def _read_besides(in_force: EffectiveConfiguration) -> tuple[str, ...]:
    """The files that an effective configuration depends on, besides those that every folder may have."""
    return (*in_force.sources, *([str(in_force.baseline.file)] if in_force.baseline else []))


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
    rules = find_rules()
    problem = ""
    try:
        settings = load_settings([folder], Path(client.configuration) if client.configuration else None)
        file = find_baseline(settings, Path(folder))
        chosen = _chosen(rules, settings, client)
        return replace(chosen, baseline=read_baseline(file) if file else None)
    except (UsageError, RuleFileError) as error:
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
    own = own_rules(settings, rules)
    rules = *rules, *own.rules
    selection = chosen_for(replace(settings, preview=preview), rules, editor, own.not_trusted)
    excludes = Excludes((*settings.exclude, *settings.extend_exclude), str(settings.root))
    return EffectiveConfiguration(
        rules,
        selection,
        excludes,
        settings.target_versions,
        problem=" ".join(own.remarks),
        documentation=settings.documentation,
        sources=_sources(settings),
    )


def _sources(settings: Settings) -> tuple[str, ...]:
    """The files besides the usual ones that a configuration depends on: extended ones, own rules, and their trust."""
    rules = rule_files(settings) if settings.rules else []
    folders = {path.parent for path in rules}
    trust = [trust_file()] if settings.rules else []
    return tuple(str(path) for path in (*settings.sources, *rules, *folders, *trust))
