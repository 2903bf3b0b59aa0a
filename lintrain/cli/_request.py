"""The files that a check reads and the request that it runs, from options and settings."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lintrain.check.check_request import CheckRequest
from lintrain.check.crew import processors
from lintrain.check.selection import Selection
from lintrain.check.targets import Targets
from lintrain.cli._options import STDIN, CheckOptions
from lintrain.rulebook import RuleFile, rule_folder
from lintrain.settings.loading import common_folder, find_baseline
from lintrain.settings.settings import Settings, UsageError
from lintrain.source.discovery import Discovery, Excludes
from lintrain.source.reading import LARGEST_FILE

if TYPE_CHECKING:
    from lintrain.cache.store import Store
    from lintrain.check.baseline import Baseline


def request_of(
    options: CheckOptions, settings: Settings, rules: Sequence[RuleFile], selection: Selection, files: Sequence[str]
) -> CheckRequest:
    """The request; raises UsageError if the project's baseline cannot be read.

    A single file uses no store: the output of the whole command is cached for it.
    """
    return CheckRequest(
        files,
        rules,
        selection,
        Targets(settings),
        {files[0]: read_stdin()} if options.reads_stdin and files else {},
        excludes_of(settings).leave_out_within,
        speaks_of_modules=not options.reads_stdin,
        knows_verdicts=not options.no_cache,
        baseline=baseline_of(options, settings),
        jobs=options.jobs or min(settings.jobs or processors(), processors()),
        store=store_of(options, settings) if len(files) > 1 and not options.no_cache else None,
    )


def store_of(options: CheckOptions, settings: Settings) -> Store | None:
    """The results of earlier runs with the same versions and settings; None if ruff is not installed."""
    from lintrain._version import __version__
    from lintrain.cache.folder import store_folder
    from lintrain.cache.own_code import digest_of_code, digest_of_program
    from lintrain.cache.runs import python_and_variables
    from lintrain.cache.store import Store
    from lintrain.cache.watch import unheard
    from lintrain.check.names.ruff import find_ruff

    ruff = find_ruff()
    if ruff is None:
        return None
    package = os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120 - every check asks this
    with unheard():
        code = digest_of_code(package, str(rule_folder()), __version__), digest_of_program(ruff)
    around = (__version__, code, os.getcwd(), python_and_variables(), sorted(settings.target_versions.items()))  # noqa: PTH109 - every check asks this
    return Store(store_folder("files", options.cache_dir), repr(around))


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
    from lintrain.source.changed import changed_files
    from lintrain.source.git import GitError
    from lintrain.source.importers import Importers

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


def files_of(options: CheckOptions, settings: Settings) -> list[str]:
    """The files to check; raises UsageError and MissingPathError."""
    excludes = excludes_of(settings)
    if not options.reads_stdin:
        return Discovery(excludes, settings.respect_gitignore, settings.force_exclude).find(options.searched)
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
