"""The project's baseline: what `lintrain baseline` writes, and what a check reports about it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from lintrain.check.baseline import Baseline, may_be_written, read_baseline
from lintrain.check.check_run import CheckRun
from lintrain.check.result import CheckResult, Crash
from lintrain.check.selection import CheckRequest
from lintrain.cli._options import CheckOptions, settings_of, with_rules
from lintrain.cli._output import CommandError, say, write_report
from lintrain.cli._request import files_of, plan, request_of
from lintrain.report.text.frame import count
from lintrain.rulebook import RuleFileError, find_rules
from lintrain.settings.loading import BASELINE_FILE, find_baseline
from lintrain.settings.settings import Settings, UsageError
from lintrain.source.bounds import is_within
from lintrain.source.discovery import MissingPathError


def write_baseline(
    *, prune: bool, baseline: Path | None, preview: bool | None, config: Path | None, quiet: bool
) -> int:
    """Run the command and return its exit code; raises CommandError."""
    options = CheckOptions(preview=preview, config=config, no_baseline=True)
    try:
        settings = settings_of(options)
        file = baseline or _project_file(settings)
        before = read_baseline(file) if prune else _before(file)
        outcome, rules = _checked(replace(options, paths=(str(_project(settings, file)),)), settings)
    except (UsageError, MissingPathError, RuleFileError) as error:
        raise CommandError(str(error)) from error
    for fault in Crash.grouped(outcome.crashes):
        say(f"lintrain: {fault}")
    after = before.pruned(outcome, rules) if prune else before.of(outcome)
    write_report(after.as_text(), file)
    if not quiet:
        say(f"lintrain: {_summary(before, after)} in {os.path.relpath(file)}")
    return 0


def _project_file(settings: Settings) -> Path:
    """The project's baseline file; raises UsageError if the configuration names a file outside of the project."""
    file = find_baseline(settings, Path.cwd()) or settings.root / BASELINE_FILE
    inside = settings.root if settings.baseline is not None else file.parent
    if not is_within(os.path.realpath(file), os.path.realpath(inside)):
        where = "" if settings.baseline is None else f"{settings.file}: `baseline`: "
        name = settings.baseline or os.path.relpath(file)
        raise UsageError(f"{where}`{name}` is outside of the project; pass `--baseline FILE` to write it anyway")
    return file


def _before(file: Path) -> Baseline:
    """The present baseline; an empty one if the file is damaged, for instance by a merge.

    Raises UsageError if the file is not a baseline.
    """
    try:
        return read_baseline(file)
    except UsageError as error:
        if not may_be_written(file):
            message = f"{file}: not a lintrain baseline, so it is not overwritten; name another file or remove this one"
            raise UsageError(message) from error
        return Baseline(file)


def _project(settings: Settings, file: Path) -> Path:
    return settings.root if settings.file or not file.is_file() else file.resolve().parent


def _checked(options: CheckOptions, settings: Settings) -> tuple[CheckResult, Callable[[str], frozenset[str]]]:
    """The findings of the whole project, and the rules that ran on a file."""
    rules = find_rules()
    outer = with_rules(options, rules, settings)
    found = plan(options, rules, outer, files_of(options, settings))
    for remark in found.remarks:
        say(f"lintrain: {remark}")
    request = request_of(options, settings, found.rules, outer.selection, found.files, found.by_folder)
    run = CheckRun(request)
    outcome = run.check()
    run.keep()
    return outcome, partial(rules_of, request)


def rules_of(request: CheckRequest, path: str) -> frozenset[str]:
    """The rules that the configuration nearest to a file enables."""
    return request.selection_of(path).names


def _summary(before: Baseline, after: Baseline) -> str:
    added = sum(max(0, number - before.counts.get(key, 0)) for key, number in after.counts.items())
    gone = before.total + added - after.total
    return f"recorded {count(after.total, 'finding')} ({added} new, {gone} removed)"


def remarks(request: CheckRequest, options: CheckOptions, outcome: CheckResult) -> Iterator[str]:
    """How many findings the baseline hides, and how many of its entries are fixed."""
    if request.baseline is None:
        return
    file = os.path.relpath(request.baseline.file)
    hidden = sum(len(each.known) for each in outcome.files)
    if hidden:
        yield f"{file} hides {count(hidden, 'finding')} (`--no-baseline` shows them)"
    folder = request.baseline.file.resolve().parent
    if options.changed_since or not any(folder.is_relative_to(os.path.realpath(path)) for path in options.searched):
        return  # a file that was not checked may still have findings in the modules that it imports
    fixed = request.baseline.total - request.baseline.pruned(outcome, partial(rules_of, request)).total
    if fixed:
        yield f"{file} has {count(fixed, 'fixed finding')} (`lintrain baseline --prune` removes them)"
