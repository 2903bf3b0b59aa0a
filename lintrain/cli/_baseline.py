"""The project's baseline: what `lintrain baseline` writes, and what a check says of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from lintrain.check.baseline import Baseline, may_be_written, read_baseline
from lintrain.check.check_request import CheckRequest
from lintrain.check.check_run import CheckRun
from lintrain.check.result import CheckResult, Crash
from lintrain.cli._options import CheckOptions, files_of, selection_of, settings_of
from lintrain.cli._output import Refusal, say, write_report
from lintrain.cli._request import request_of
from lintrain.report.text.summary import count
from lintrain.rulebook import RuleFileError, find_rules
from lintrain.settings.loading import BASELINE_FILE, find_baseline
from lintrain.settings.settings import Settings, UsageError
from lintrain.source.bounds import is_within
from lintrain.source.discovery import MissingPathError


def write_baseline(
    *, prune: bool, baseline: Path | None, preview: bool | None, config: Path | None, quiet: bool
) -> int:
    """Carry out the command and give its exit code; raises Refusal."""
    options = CheckOptions(preview=preview, config=config, no_baseline=True)
    try:
        settings = settings_of(options)
        file = baseline or _own_file(settings)
        before = read_baseline(file) if prune else _before(file)
        outcome, heard = _checked(replace(options, paths=(str(_project(settings, file)),)), settings)
    except (UsageError, MissingPathError, RuleFileError) as error:
        raise Refusal(str(error)) from error
    for fault in Crash.told_together(outcome.crashes):
        say(f"lintrain: {fault}")
    after = before.pruned(outcome, heard) if prune else before.of(outcome)
    write_report(after.as_text(), file)
    if not quiet:
        say(f"lintrain: {_told(before, after)} in {os.path.relpath(file)}")
    return 0


def _own_file(settings: Settings) -> Path:
    """The project's baseline, to be written; raises UsageError where the project says a file that is not its own."""
    file = find_baseline(settings, Path.cwd()) or settings.root / BASELINE_FILE
    inside = settings.root if settings.baseline is not None else file.parent
    if not is_within(os.path.realpath(file), os.path.realpath(inside)):
        told = "" if settings.baseline is None else f"{settings.file}: `baseline` is "
        what = f"`{settings.baseline or os.path.relpath(file)}`, which leads out of the project"
        raise UsageError(f"{told}{what}, so it is not written; `--baseline FILE` writes anywhere")
    return file


def _before(file: Path) -> Baseline:
    """What is put off so far; a baseline that is broken, by a merge for instance, is written anew.

    Raises UsageError where the file is something else.
    """
    try:
        return read_baseline(file)
    except UsageError as error:
        if not may_be_written(file):
            told = f"{file}: not a baseline of lintrain, so it is not overwritten; name another file, or remove it"
            raise UsageError(told) from error
        return Baseline(file)


def _project(settings: Settings, file: Path) -> Path:
    return settings.root if settings.file or not file.is_file() else file.resolve().parent


def _checked(options: CheckOptions, settings: Settings) -> tuple[CheckResult, frozenset[str]]:
    """What is found in the whole project, and the rules that were heard."""
    rules = find_rules()
    selection = selection_of(options, settings, rules)
    request = request_of(options, settings, rules, selection, files_of(options, settings))
    run = CheckRun(request)
    outcome = run.check()
    run.keep()
    return outcome, selection.names


def _told(before: Baseline, after: Baseline) -> str:
    added = sum(max(0, number - before.counts.get(key, 0)) for key, number in after.counts.items())
    gone = before.total + added - after.total
    return f"{count(after.total, 'finding')} put off ({added} new, {gone} gone)"


def remarks(request: CheckRequest, options: CheckOptions, outcome: CheckResult) -> Iterator[str]:
    """What a check says of the baseline: how many findings it hides, and how many of its own are mended."""
    if request.baseline is None:
        return
    file = os.path.relpath(request.baseline.file)
    hidden = sum(len(each.known) for each in outcome.files)
    if hidden:
        yield f"{file} hides {count(hidden, 'finding')} (`--no-baseline` shows what it hides)"
    folder = request.baseline.file.resolve().parent
    if options.changed_since or not any(folder.is_relative_to(os.path.realpath(path)) for path in options.searched):
        return  # a script that was not read may still show what is not found in its modules
    mended = request.baseline.total - request.baseline.pruned(outcome, request.selection.names).total
    if mended:
        yield f"{file} knows {count(mended, 'finding')} too many, mended by now (`lintrain baseline --prune`)"
