"""The options of `lintrain check`, and the settings that result from them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from lintrain.check.selection import FileSettings, Selection, asked, chosen_for, split
from lintrain.rulebook import RuleFile
from lintrain.settings.loading import load_settings
from lintrain.settings.settings import (
    FORMATS,
    LEVELS,
    MOST_JOBS,
    WITH_SUPPRESSED,
    Settings,
    UsageError,
    checked_version,
)
from lintrain.startup.command_line import PlainReader
from lintrain.startup.lazy_dataclass import dataclass

STDIN = "-"
SINGULAR = {"targets": "target"}
SHORT = {"-q": "--quiet", "-v": "--verbose"}

STATISTICS_FORMATS = ("full", "concise", "json")
STATISTICS = ("rule", "folder")
COLORS = ("auto", "always", "never")


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """The command line of `lintrain check`."""

    paths: tuple[str, ...] = ()
    select: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_file_ignores: tuple[str, ...] = ()
    preview: bool | None = None
    baseline: Path | None = None
    no_baseline: bool = False
    changed_since: str | None = None
    output_format: str | None = None
    output_file: Path | None = None
    hide_suppressed: bool = False
    statistics: bool = False
    statistics_by: str | None = None
    timings: bool = False
    fix: bool = False
    fix_only: bool = False
    unsafe_fixes: bool = False
    show_fixes: bool = False
    exit_non_zero_on_fix: bool = False
    add_ignores: str | None = None
    diff: bool = False
    exclude: tuple[str, ...] = ()
    extend_exclude: tuple[str, ...] = ()
    force_exclude: bool | None = None
    respect_gitignore: bool | None = None
    targets: tuple[str, ...] = ()
    config: Path | None = None
    isolated: bool = False
    stdin_filename: str | None = None
    exit_zero: bool = False
    fail_on: str | None = None
    max_warnings: int | None = None
    color: str | None = None
    strict: bool | None = None
    show_files: bool = False
    show_settings: bool = False
    cache_dir: str | None = None
    no_cache: bool = False
    watch: bool = False
    jobs: int | None = None
    quiet: bool = False
    verbose: bool = False

    @property
    def reads_stdin(self) -> bool:
        """Whether the code is read from standard input."""
        return STDIN in self.paths

    @property
    def fixes(self) -> bool:
        """Whether fixes are applied or shown."""
        return self.fix or self.fix_only or self.diff

    @property
    def counted(self) -> str | None:
        """What findings are counted by, if only their numbers are shown."""
        return self.statistics_by or ("rule" if self.statistics else None)

    @property
    def searched(self) -> tuple[str, ...]:
        """The files and folders to check: the current folder if none is named."""
        return self.paths or (".",)

    @property
    def named(self) -> tuple[str, ...]:
        """The paths that determine the project; for standard input, its file name."""
        return (self.stdin_filename or ".",) if self.reads_stdin else self.searched


def check_consistency(options: CheckOptions) -> None:
    """Raise UsageError for options that contradict each other or would do nothing."""
    if options.counted and options.output_format not in (None, *STATISTICS_FORMATS):
        raise UsageError(f"--statistics supports the output formats {', '.join(STATISTICS_FORMATS)}")
    if options.hide_suppressed and options.output_format not in (None, *WITH_SUPPRESSED):
        raise UsageError("--hide-suppressed needs --output-format json or sarif")
    if options.stdin_filename and not options.reads_stdin:
        raise UsageError("--stdin-filename needs `-` as the path")
    if options.baseline and options.no_baseline:
        raise UsageError("--baseline and --no-baseline cannot be combined")
    if options.changed_since and options.reads_stdin:
        raise UsageError("--changed-since selects files and cannot be combined with standard input")
    _check_writing_options(options)
    if options.timings and options.quiet:
        raise UsageError("--timings and --quiet cannot be combined")
    if options.cache_dir is not None and options.no_cache:
        raise UsageError("--cache-dir and --no-cache cannot be combined")
    if options.isolated and options.config:
        raise UsageError("--isolated and --config cannot be combined")


def _check_writing_options(options: CheckOptions) -> None:
    if options.unsafe_fixes and not options.fixes:
        raise UsageError("--unsafe-fixes needs --fix, --fix-only or --diff")
    if options.show_fixes and not options.fixes:
        raise UsageError("--show-fixes needs --fix, --fix-only or --diff")
    if options.exit_non_zero_on_fix and not (options.fix or options.fix_only):
        raise UsageError("--exit-non-zero-on-fix needs --fix or --fix-only")
    writes = [
        name
        for name, given in (
            ("--fix", options.fix),
            ("--fix-only", options.fix_only),
            ("--diff", options.diff),
            ("--add-ignores", options.add_ignores),
        )
        if given is not None and given is not False
    ]
    if options.add_ignores is not None:
        if not options.add_ignores.strip() or not options.add_ignores.isprintable():
            raise UsageError("--add-ignores: the reason must be one line of text; it is written in every comment")
        if options.reads_stdin:
            raise UsageError("--add-ignores changes files and cannot be combined with standard input")
        if len(writes) > 1:
            raise UsageError(f"--add-ignores and {writes[0]} cannot be combined")
    if options.watch and (writes or options.reads_stdin):
        raise UsageError(f"--watch and {(*writes, 'standard input')[0]} cannot be combined")


def settings_of(options: CheckOptions) -> Settings:
    """The project's settings, overridden by the command line; raises UsageError."""
    return overridden(options, _configured_settings(options))


def overridden(options: CheckOptions, settings: Settings) -> Settings:
    """The settings of a configuration, overridden by the command line; raises UsageError."""
    here = str(settings.root)
    exclude = tuple(_below(pattern, here) for pattern in split(options.exclude))
    return replace(
        settings,
        exclude=exclude or settings.exclude,
        extend_exclude=(
            *settings.extend_exclude,
            *(_below(pattern, here) for pattern in split(options.extend_exclude)),
        ),
        force_exclude=settings.force_exclude if options.force_exclude is None else options.force_exclude,
        respect_gitignore=settings.respect_gitignore
        if options.respect_gitignore is None
        else options.respect_gitignore,
        jobs=options.jobs or settings.jobs,
        preview=settings.preview if options.preview is None else options.preview,
        strict=settings.strict if options.strict is None else options.strict,
        fail_on=options.fail_on or settings.fail_on,
        max_warnings=settings.max_warnings if options.max_warnings is None else options.max_warnings,
        output_format=options.output_format or settings.output_format,
        target_versions={**settings.target_versions, **_targets(options.targets)},
    )


def _configured_settings(options: CheckOptions) -> Settings:
    if options.isolated:
        return Settings(root=Path.cwd())
    return load_settings(options.named, options.config)


def selection_of(
    options: CheckOptions, settings: Settings, rules: Sequence[RuleFile], not_trusted: Mapping[str, str] | None = None
) -> Selection:
    """The rules that settings and command line select; raises UsageError."""
    command = asked(options.select, options.ignore, options.extend_select, _per_file(options.per_file_ignores))
    return chosen_for(settings, rules, command, not_trusted)


def with_rules(options: CheckOptions, rules: Sequence[RuleFile], settings: Settings) -> FileSettings:
    """The settings with the rules that they select, some of them the project's own; raises UsageError."""
    if not settings.rules:
        return FileSettings(settings, selection_of(options, settings, rules))
    from lintrain.check.own_rules import own_rules

    own = own_rules(settings, rules)
    selection = selection_of(options, settings, (*rules, *own.rules), own.not_trusted)
    return FileSettings(settings, selection, own.rules, tuple(own.remarks))


def with_rules_of(options: CheckOptions, rules: Sequence[RuleFile], settings: Settings) -> FileSettings:
    """As `with_rules`, of a configuration as it is written."""
    return with_rules(options, rules, overridden(options, settings))


def _below(pattern: str, root: str) -> str:
    """A pattern relative to the current folder, made relative to the root."""
    if "/" not in pattern.rstrip("/"):
        return pattern
    return os.path.relpath(pattern, root).replace(os.sep, "/")


def _per_file(given: Sequence[str]) -> Mapping[str, Sequence[str]]:
    ignores: dict[str, list[str]] = {}
    for text in given:
        pattern, colon, names = text.rpartition(":")
        if not colon or not pattern or not names.strip():
            raise UsageError(f"--per-file-ignores {text}: expected `PATTERN:NAME,NAME`")
        ignores.setdefault(pattern, []).extend(split([names]))
    return ignores


def _targets(given: Iterable[str]) -> dict[str, str]:
    """The version of each package that `--target` names."""
    targets: dict[str, str] = {}
    for text in given:
        package = re.split(r"[=<>!~]", text, maxsplit=1)[0]
        version = re.sub(r"^==?(?!=)", "", text.removeprefix(package)).strip()
        try:
            targets[package.strip()] = checked_version(version)
        except ValueError as error:
            raise UsageError(
                f"--target {text}: {error}; expected `PACKAGE=VERSION`, for example `transformers=4.57.6`"
            ) from error
    return targets


@cache
def plain_reader() -> PlainReader[CheckOptions]:
    """Reads the options without click."""
    return PlainReader(CheckOptions, "paths", SINGULAR, SHORT)


def read_options(arguments: Sequence[str]) -> CheckOptions | None:
    """The options of a command line that is written plainly; None if click has to read it."""
    return plain_reader().read(arguments, _accepts)


def _accepts(given: Mapping[str, Any]) -> bool:
    """Whether click accepts the values: known words, a report that is not a folder, not too many processes."""
    report = given.get("output_file")
    return (
        given.get("output_format") in (None, *FORMATS)
        and given.get("fail_on") in (None, *LEVELS)
        and given.get("statistics_by") in (None, *STATISTICS)
        and given.get("color") in (None, *COLORS)
        and (given.get("jobs") or 1) <= MOST_JOBS
        and not (report and os.path.isdir(report))  # noqa: PTH112 - as it is, no `Path` method is quicker
    )
