"""The options of `lintrain check`, and the settings and files that they come to."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from lintrain.check.selection import Selection, asked, chosen_for, split
from lintrain.rulebook import RuleFile
from lintrain.settings.loading import load_settings
from lintrain.settings.settings import TELL_SUPPRESSED, Settings, UsageError, checked_version
from lintrain.source.discovery import Discovery, Excludes
from lintrain.source.reading import LARGEST_FILE
from lintrain.startup.lazy_dataclass import dataclass

STDIN = "-"

COUNTED = ("full", "concise", "json")
"""The forms that counts of findings have."""


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """The command line of `lintrain check`, as click reads it."""

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
        """Whether the code comes through standard input."""
        return STDIN in self.paths

    @property
    def mends(self) -> bool:
        """Whether fixes are written or shown."""
        return self.fix or self.fix_only or self.diff

    @property
    def searched(self) -> tuple[str, ...]:
        """The files and folders to look in: the working folder where none is named."""
        return self.paths or (".",)

    @property
    def named(self) -> tuple[str, ...]:
        """The paths whose project this is: for standard input, the file that it stands for."""
        return (self.stdin_filename or ".",) if self.reads_stdin else self.searched


def demand_sense(options: CheckOptions) -> None:
    """Refuse options that contradict each other or would do nothing; raises UsageError."""
    if options.statistics and options.output_format not in (None, *COUNTED):
        raise UsageError(f"--statistics counts; --output-format is one of {', '.join(COUNTED)} then")
    if options.hide_suppressed and options.output_format not in (None, *TELL_SUPPRESSED):
        raise UsageError(f"--hide-suppressed: the {options.output_format} report tells of none; json and sarif do")
    if options.stdin_filename and not options.reads_stdin:
        raise UsageError("--stdin-filename names what comes through standard input; give `-` as the path")
    if options.baseline and options.no_baseline:
        raise UsageError("--baseline names a file of known findings, --no-baseline reads none")
    if options.changed_since and options.reads_stdin:
        raise UsageError("--changed-since chooses among files; standard input is always read")
    _demand_sense_of_writing(options)
    if options.cache_dir is not None and options.no_cache:
        raise UsageError("--cache-dir says where answers are kept, --no-cache keeps none")
    if options.isolated and options.config:
        raise UsageError("--isolated reads no configuration file, --config names one")


def _demand_sense_of_writing(options: CheckOptions) -> None:
    if options.unsafe_fixes and not options.mends:
        raise UsageError("--unsafe-fixes says which fixes --fix or --diff may write; name one of them too")
    if options.show_fixes and not options.mends:
        raise UsageError("--show-fixes lists what --fix or --diff mends; name one of them too")
    if options.exit_non_zero_on_fix and not (options.fix or options.fix_only):
        raise UsageError("--exit-non-zero-on-fix is about files that --fix changes; name it too")
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
            raise UsageError("--add-ignores: write the reason on one line, it stands in every comment")
        if options.reads_stdin:
            raise UsageError("--add-ignores writes into files; name them instead of `-`")
        if len(writes) > 1:
            raise UsageError(f"--add-ignores keeps the code as it is, {writes[0]} changes it; one at a time")
    if options.watch and (writes or options.reads_stdin):
        raise UsageError(f"--watch only reads files; leave {(*writes, '`-`')[0]} out")


def settings_of(options: CheckOptions) -> Settings:
    """The project's settings with what the command line says on top; raises UsageError."""
    settings = _configured_settings(options)
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
        output_format=options.output_format or settings.output_format,
        target_versions={**settings.target_versions, **_targets(options.targets)},
    )


def _configured_settings(options: CheckOptions) -> Settings:
    if options.isolated:
        return Settings(root=Path.cwd())
    return load_settings(options.named, options.config)


def selection_of(options: CheckOptions, settings: Settings, rules: Sequence[RuleFile]) -> Selection:
    """The rules that settings and command line choose; raises UsageError."""
    per_file = _per_file(options.per_file_ignores)
    return chosen_for(settings, rules, asked(options.select, options.ignore, options.extend_select, per_file))


def excludes_of(settings: Settings) -> Excludes:
    """The files and folders that the project leaves out."""
    return Excludes((*settings.exclude, *settings.extend_exclude), str(settings.root))


def files_of(options: CheckOptions, settings: Settings) -> list[str]:
    """The files to read; raises UsageError and MissingPathError."""
    excludes = excludes_of(settings)
    if not options.reads_stdin:
        return Discovery(excludes, settings.respect_gitignore, settings.force_exclude).find(options.searched)
    if len(options.paths) > 1:
        raise UsageError("`-` reads standard input alone, without other paths")
    name = options.stdin_filename or STDIN
    return [] if settings.force_exclude and excludes.leave_out_within(name) else [name]


def _below(pattern: str, root: str) -> str:
    """A pattern of the command line, which is relative to the working folder, as one relative to the root."""
    if "/" not in pattern.rstrip("/"):
        return pattern
    return os.path.relpath(pattern, root).replace(os.sep, "/")


def _per_file(given: Sequence[str]) -> Mapping[str, Sequence[str]]:
    ignores: dict[str, list[str]] = {}
    for text in given:
        pattern, colon, names = text.rpartition(":")
        if not colon or not pattern or not names.strip():
            raise UsageError(f"--per-file-ignores {text}: write it as `PATTERN:NAME,NAME`")
        ignores.setdefault(pattern, []).extend(split([names]))
    return ignores


def _targets(given: Iterable[str]) -> dict[str, str]:
    """Package and version of every `--target`."""
    targets: dict[str, str] = {}
    for text in given:
        package = re.split(r"[=<>!~]", text, maxsplit=1)[0]
        version = re.sub(r"^==?(?!=)", "", text.removeprefix(package)).strip()
        try:
            targets[package.strip()] = checked_version(version)
        except ValueError as error:
            raise UsageError(f"--target {text}: {error}; write it as `transformers=4.57.6`") from error
    return targets


def read_stdin() -> bytes:
    """What comes through standard input; raises UsageError where that is more than any script holds."""
    raw = sys.stdin.buffer.read(LARGEST_FILE + 1)
    if len(raw) > LARGEST_FILE:
        raise UsageError(f"standard input holds more than {LARGEST_FILE // 2**20} MiB")
    return raw
