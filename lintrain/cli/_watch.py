"""`lintrain check --watch`: check again whenever a file of the project changes."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from lintrain.cli._options import CheckOptions, check_consistency, settings_of
from lintrain.cli._output import CommandError, say, write_report
from lintrain.cli._request import excludes_of
from lintrain.settings.settings import Settings, UsageError
from lintrain.text.shown import trusted

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
        raise CommandError('--watch needs watchfiles: `pip install "lintrain[watch]"`') from error
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
