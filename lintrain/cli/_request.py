"""The files that a check reads and the request that it runs, from options and settings.

`lintrain check --watch`: check again whenever a file of the project changes.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lintrain.cache.folder import store_folder
from lintrain.check.executor import processors
from lintrain.check.files import Targets
from lintrain.check.packages import Packages
from lintrain.check.selection import CheckRequest, FileSettings, NearestSettings, Selection
from lintrain.cli._options import STDIN, CheckOptions, check_consistency, settings_of, with_rules_of
from lintrain.cli._output import CommandError, how_to_install, say, write_report
from lintrain.rulebook import RuleFile
from lintrain.settings.loading import common_folder, find_baseline
from lintrain.settings.settings import Settings, UsageError
from lintrain.source.discovery import Discovery, Excludes, nothing
from lintrain.source.reading import LARGEST_FILE
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.text import trusted

if TYPE_CHECKING:
    from lintrain.cache.store import Store
    from lintrain.check.baseline import Baseline


@dataclass(frozen=True, slots=True)
class Plan:
    """What a command is to check: the files, all rules, and the settings of the run and of files with nearer ones."""

    outer: FileSettings
    rules: Sequence[RuleFile]
    files: Sequence[str]
    by_folder: NearestSettings | None = None

    @property
    def remarks(self) -> list[str]:
        """Which rules of the project's own are not trusted."""
        settings = self.by_folder.all(self.files) if self.by_folder else [self.outer]
        return list(dict.fromkeys(remark for each in settings for remark in each.remarks))


def plan(options: CheckOptions, rules: Sequence[RuleFile], outer: FileSettings, files: Sequence[str]) -> Plan:
    """The plan for files that were found with the settings of the run; raises UsageError.

    A file has the settings of the nearest configuration, which may exclude it, too. A file on the command line is
    checked, however.
    """
    if options.config or options.isolated:
        return Plan(outer, (*rules, *outer.own), files)
    searched = tuple(os.path.abspath(path) for path in options.searched)  # noqa: PTH100 - as in the search
    top = str(common_folder(options.named))
    by_folder = NearestSettings(outer, top, partial(with_rules_of, options, rules), searched)
    named = {os.path.abspath(path) for path in options.named}  # noqa: PTH100 - as in the search
    left = [path for path in files if not _is_excluded(path, named, by_folder.of(path), outer)]
    own = [rule for settings in by_folder.all(left) for rule in settings.own]
    paths: dict[str, Path] = {}
    for rule in own:
        if paths.setdefault(rule.name, rule.path) != rule.path:
            raise UsageError(f"{rule.path}: another rule has the name `{rule.name}`: {paths[rule.name]}")
    return Plan(outer, (*rules, *{rule.path: rule for rule in own}.values()), left, by_folder)


def _is_excluded(path: str, named: Collection[str], nearest: FileSettings, outer: FileSettings) -> bool:
    """Whether a nearer configuration than that of the run excludes a file."""
    if nearest is outer or (os.path.abspath(path) in named and not outer.settings.force_exclude):  # noqa: PTH100
        return False
    return nearest.excludes.leave_out_within(path)


def request_of(
    options: CheckOptions,
    settings: Settings,
    rules: Sequence[RuleFile],
    selection: Selection,
    files: Sequence[str],
    by_folder: NearestSettings | None = None,
) -> CheckRequest:
    """The request; raises UsageError if the project's baseline cannot be read.

    A single file uses no store: the output of the whole command is cached for it.
    """
    return CheckRequest(
        files,
        rules,
        selection,
        Targets(settings, common_folder(options.named), by_folder),
        {files[0]: read_stdin()} if options.reads_stdin and files else {},
        partial(_leaves_out, by_folder) if by_folder else excludes_of(settings).leave_out_within,
        reports_modules=not options.reads_stdin,
        shows_verdicts=not options.no_cache,
        baseline=baseline_of(options, settings),
        jobs=options.jobs or min(settings.jobs or processors(), processors()),
        store=store_of(options, settings) if len(files) > 1 and not (options.no_cache or options.timings) else None,
        packages=Packages(None if options.no_cache else store_folder("packages", options.cache_dir)),
        by_folder=by_folder,
        is_timed=options.timings,
    )


def _leaves_out(by_folder: NearestSettings, path: str) -> bool:
    """Whether the configuration nearest to a file, or that of the run, excludes it."""
    return by_folder.outer.excludes.leave_out_within(path) or by_folder.of(path).excludes.leave_out_within(path)


def store_of(options: CheckOptions, settings: Settings) -> Store | None:
    """The results of earlier runs with the same versions and settings; None if ruff is not installed."""
    from lintrain.check.cached_results import store_in

    versions = sorted(settings.target_versions.items()), str(common_folder(options.named))
    around = os.getcwd(), *versions  # noqa: PTH109 - every check asks this
    return store_in(store_folder("files", options.cache_dir), around)


def baseline_of(options: CheckOptions, settings: Settings) -> Baseline | None:
    """The project's baseline, if there is one; raises UsageError."""
    if options.no_baseline:
        return None
    file = options.baseline
    if file is None and not options.isolated:
        file = find_baseline(settings, common_folder(options.named))
    if file is None:
        return None
    from lintrain.check.baseline import read_baseline

    return read_baseline(file)


def only_changed(options: CheckOptions, revision: str, files: Sequence[str]) -> list[str]:
    """The files that changed, and files that import changed ones; raises UsageError."""
    from lintrain.source.changed import Importers, changed_files
    from lintrain.source.git import GitError

    try:
        changed = changed_files(common_folder(options.named), revision)
    except GitError as error:
        raise UsageError(f"--changed-since {revision}: {error}") from error
    if not changed:
        return []
    real = {file: os.path.realpath(file) for file in files}
    reached = Importers().reaching(real.values(), changed)
    return [file for file in files if real[file] in reached]


def excludes_of(settings: Settings) -> Excludes:
    """The files and folders that the project excludes."""
    return Excludes((*settings.exclude, *settings.extend_exclude), str(settings.root))


def files_of(options: CheckOptions, settings: Settings, on_folder: Callable[[], None] = nothing) -> list[str]:
    """The files to check; raises UsageError and MissingPathError. `on_folder` is called in each folder."""
    excludes = excludes_of(settings)
    if not options.reads_stdin:
        search = Discovery(excludes, settings.respect_gitignore, settings.force_exclude, on_folder)
        return search.find(options.searched)
    if len(options.paths) > 1:
        raise UsageError("`-` (standard input) cannot be combined with other paths")
    name = options.stdin_filename or STDIN
    return [] if settings.force_exclude and excludes.leave_out_within(name) else [name]


def read_stdin() -> bytes:
    """The code on standard input; raises UsageError if it is larger than any script."""
    raw = sys.stdin.buffer.read(LARGEST_FILE + 1)
    if len(raw) > LARGEST_FILE:
        raise UsageError(f"standard input is larger than {LARGEST_FILE // 2**20} MiB")
    return raw


CLEAR = trusted("\x1b[H\x1b[2J\x1b[3J")
WATCHED = (".py", ".ipynb", ".toml", ".yaml", ".yml", ".json")
"""What a check reads: code, its configuration, and the configuration of scripts."""

TICK = 100
"""Milliseconds between two looks for changes, in which Ctrl-C is noticed."""


def watch(options: CheckOptions, check: Callable[[], int]) -> int:
    """Check now and after every change until Ctrl-C; the exit code is 0."""
    try:
        from watchfiles import watch as watch_files
    except ImportError as error:
        raise CommandError(f"--watch needs watchfiles: {how_to_install('watchfiles')}") from error
    try:
        check_consistency(options)
        settings = settings_of(options)
    except UsageError as error:
        raise CommandError(str(error)) from error
    changes = watch_files(
        *_folders(options, settings),
        watch_filter=filter_of(options, settings),
        step=50,
        debounce=400,
        rust_timeout=TICK,
        yield_on_timeout=True,
    )
    try:
        next(changes)  # from here on no change is missed, also during the first check
        _check_once(check)
        for changed in changes:
            if changed:
                _check_once(check)
    except KeyboardInterrupt:
        pass
    if sys.stdout.isatty():
        say("")  # the terminal shows `^C` on the line of the prompt
    return 0


def _check_once(check: Callable[[], int]) -> None:
    """One check; a usage error may be gone after the next change."""
    if sys.stdout.isatty():
        write_report(CLEAR)
    try:
        check()
    except CommandError as error:
        error.show()
    say(f"lintrain: checked at {time.strftime('%H:%M:%S')}; waiting for changes, Ctrl-C stops")


def _folders(options: CheckOptions, settings: Settings) -> list[Path]:
    """The folders to watch: those of the named paths, and the project's if it has a configuration."""
    named = [Path(os.path.realpath(path)) for path in options.searched]
    folders = [path if path.is_dir() else path.parent for path in named]
    return list(dict.fromkeys([*folders, *([settings.root] if settings.file else [])]))


def filter_of(options: CheckOptions, settings: Settings) -> Callable[[object, str], bool]:
    """Whether a changed file can change the report: not excluded, and not the report itself."""
    excludes = excludes_of(settings)
    report = options.output_file.resolve() if options.output_file else None
    return lambda _, path: path.endswith(WATCHED) and Path(path) != report and not excludes.leave_out_within(path)
