"""The run of `lintrain check`.

Garbage collection that a run of a few seconds can do without.
"""

from __future__ import annotations

import gc
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from lintrain.check.check_run import CheckRun
from lintrain.check.result import CheckResult, Crash, Reported, Unjudged
from lintrain.check.selection import CheckRequest, Selection
from lintrain.cli._options import CheckOptions, check_consistency, settings_of, with_rules
from lintrain.cli._output import (
    CommandError,
    Progress,
    say,
    write_document,
    write_for_people,
    write_report,
    write_to_stderr,
)
from lintrain.cli._request import files_of, plan, request_of
from lintrain.model.level import Level
from lintrain.report.text.frame import (
    count,
    folder_statistics,
    folder_statistics_json,
    statistics,
    statistics_json,
    summary,
)
from lintrain.report.text.style import Style, choose_colours, style_of, wrap
from lintrain.rulebook import RuleFile, RuleFileError, find_rules
from lintrain.settings.settings import FOR_PEOPLE, Settings, UsageError
from lintrain.source.discovery import MissingPathError
from lintrain.text import shown

CLEAN, FOUND, FAILED, NOT_JUDGED = 0, 1, 2, 3


def check(options: CheckOptions) -> int:
    """Run the command and return its exit code; raises CommandError."""
    if options.watch:
        from lintrain.cli._request import watch

        return watch(options, lambda: check(replace(options, watch=False)))
    collect_rarely()
    try:
        return _check(options)
    except (UsageError, MissingPathError, RuleFileError) as error:
        raise CommandError(str(error)) from error


def _check(options: CheckOptions) -> int:
    started = time.perf_counter()
    check_consistency(options)
    choose_colours(options.color)
    rules = find_rules()
    outer = with_rules(options, rules, settings_of(options))
    settings, selection = outer.settings, outer.selection
    if options.show_settings:
        from lintrain.report.text.pages import settings_text

        write_report(settings_text(settings, selection))
        return CLEAN
    _report_preview_rules(options, selection, rules)
    progress = Progress(started, is_shown=not options.quiet)
    files = files_of(options, settings, partial(progress.show, lambda: "searching for scripts"))
    if options.changed_since:
        from lintrain.cli._request import only_changed

        files = only_changed(options, options.changed_since, files)
    progress.clear()
    planned = plan(options, rules, outer, files)
    files = list(planned.files)
    if options.show_files:
        write_report("".join(f"{shown(file)}\n" for file in files))
        return CLEAN
    if not files:
        changed = f" changed since {options.changed_since}" if options.changed_since else ""
        searched = ", ".join(f"`{path}`" for path in options.searched)
        say(f"lintrain: no Python files, notebooks or training configurations{changed} in {searched}")
    for remark in planned.remarks:
        say(f"lintrain: {remark}")
    request = request_of(options, settings, planned.rules, selection, files, planned.by_folder)
    run = CheckRun(replace(request, on_progress=partial(_show_progress, progress)))
    try:
        outcome = run.check()
    finally:
        progress.clear()
    code = _finish(options, settings, request, outcome, started)
    run.keep()
    return NOT_JUDGED if settings.strict and planned.remarks and code in (CLEAN, FOUND) else code


def _show_progress(progress: Progress, read: int, files: int) -> None:
    progress.show(lambda: f"checked {read:,} of {count(files, 'file')}")


def _finish(
    options: CheckOptions, settings: Settings, request: CheckRequest, outcome: CheckResult, started: float
) -> int:
    """Write the report, or change the files as the options ask; returns the exit code."""
    if options.add_ignores:
        from lintrain.cli._fixes import write_ignores

        outcome = write_ignores(request, outcome, options.add_ignores)
    if options.fixes:
        return _fix(options, settings, request, outcome, started)
    _write(options, settings, report_text(options, settings, outcome, request.rules))
    return _close(options, settings, request, outcome, started)


def _write(options: CheckOptions, settings: Settings, text: str) -> None:
    write = write_for_people if format_of(options, settings) in FOR_PEOPLE else write_document
    write(text, options.output_file)


def _report_preview_rules(options: CheckOptions, selection: Selection, rules: Sequence[RuleFile]) -> None:
    """Report preview rules that are selected but do not run, and a needless --preview."""
    for name in selection.unselected:
        say(f"lintrain: `{name}` is a preview rule and runs only with --preview")
    if options.preview and not any(rule.is_preview for rule in rules):
        say("lintrain: this version has no preview rules, so --preview has no effect")


def _fix(options: CheckOptions, settings: Settings, request: CheckRequest, outcome: CheckResult, started: float) -> int:
    """Apply the fixes, or show them."""
    from lintrain.cli._fixes import show_diff, write_fixes

    if options.diff:
        return show_diff(options, request, outcome)
    fixed = write_fixes(options, request, outcome)
    exits_non_zero = options.exit_non_zero_on_fix and bool(fixed.contents) and not options.exit_zero
    if options.fix_only:
        _write_remarks(options, fixed.outcome, time.perf_counter() - started)
        return _failure(settings, fixed.outcome) or (FOUND if exits_non_zero else CLEAN)
    text = report_text(options, settings, fixed.outcome, request.rules, fixed.fixed.total())
    if options.reads_stdin and not options.output_file:
        write_to_stderr(text.removesuffix("\n"))
    else:
        _write(options, settings, text)
    code = _close(options, settings, request, fixed.outcome, started)
    return code or (FOUND if exits_non_zero else CLEAN)


def _close(
    options: CheckOptions, settings: Settings, request: CheckRequest, outcome: CheckResult, started: float
) -> int:
    """Report everything that is not a finding, and return the exit code."""
    if request.baseline and not options.quiet:
        from lintrain.cli._baseline import remarks

        for remark in remarks(request, options, outcome):
            say(f"lintrain: {remark}")
    _write_remarks(options, outcome, time.perf_counter() - started)
    if options.timings:
        from lintrain.report.text.frame import timings

        for line in timings({file.path: file.seconds for file in outcome.files}, request.rules, every=options.verbose):
            say(line)
    if options.verbose and request.packages and request.packages.seconds:
        say(f"read installed packages in {request.packages.seconds:.2f} s of it")
    is_failed = not options.exit_zero and fails(outcome.reported, settings)
    return _failure(settings, outcome) or (FOUND if is_failed else CLEAN)


def fails(reported: Sequence[Reported], settings: Settings) -> bool:
    """Whether findings end a check with 1: one of the level `fail_on` or worse, or too many warnings.

    With `max_warnings`, warnings count by their number only, and notes only if `fail_on` says so.
    """
    levels = Counter(one.finding.level for one in reported)
    most = settings.max_warnings
    lowest = Level(settings.fail_on or (Level.NOTE if most is None else Level.ERROR))
    failing = list(Level)[: list(Level).index(lowest) + 1]
    if most is not None:
        failing = [level for level in failing if level != Level.WARNING]
    return any(levels[level] for level in failing) or (most is not None and levels[Level.WARNING] > most)


def _failure(settings: Settings, outcome: CheckResult) -> int:
    """The exit code for a run that has not judged every file, which `strict` asks for; 0 for any other."""
    if outcome.crashes:
        return FAILED
    return NOT_JUDGED if settings.strict and outcome.is_incomplete else CLEAN


def report_text(
    options: CheckOptions, settings: Settings, outcome: CheckResult, rules: Sequence[RuleFile], fixed: int = 0
) -> str:
    """The report in the requested format, with its closing line."""
    name = format_of(options, settings)
    if options.counted and name == "json":
        as_json = folder_statistics_json if options.counted == "folder" else statistics_json
        return as_json(outcome.reported) + "\n"
    if name not in FOR_PEOPLE and not options.counted:
        return _program_text(name, options, settings, outcome, rules, fixed)
    style = Style() if options.output_file else style_of(sys.stdout)
    if options.counted:
        lines_of = folder_statistics if options.counted == "folder" else statistics
        blocks, between = lines_of(outcome.reported, style), "\n"
    elif not outcome.reported:
        blocks, between = iter(()), ""
    else:
        from lintrain.report.text.findings import people_blocks

        blocks, between = people_blocks(name, outcome.reported, outcome.sources.get, style)
    body = between.join(blocks)
    if options.quiet or not outcome.files:
        return f"{body}\n" if body else ""
    closing = summary(outcome.reported, len(outcome.files), fixed)
    on_terminal = sys.stdout.isatty() and not options.output_file
    lines = wrap(closing, 0, 2, style.width) if on_terminal else [closing]
    return f"{body}{between if body else ''}{f'{chr(10)}  '.join(lines)}\n"


def format_of(options: CheckOptions, settings: Settings) -> str:
    """The report format: the requested one, else `full` on a terminal and `concise` elsewhere."""
    return settings.output_format or ("full" if sys.stdout.isatty() and not options.output_file else "concise")


def _program_text(
    name: str, options: CheckOptions, settings: Settings, outcome: CheckResult, rules: Sequence[RuleFile], fixed: int
) -> str:
    from lintrain.report.machine.choice import WITH_EDITS, program_text
    from lintrain.report.machine.document import without_suppressed
    from lintrain.report.machine.entries import check_report, no_edits

    find_source = outcome.sources.get
    if name == "html":
        from lintrain.report.page.findings import checked_page

        closing = summary(outcome.reported, len(outcome.files), fixed)
        unjudged = [line for _, line in Unjudged.grouped(outcome.unjudged)]
        return checked_page(outcome.reported, find_source, closing, unjudged=unjudged)
    report = check_report(outcome, find_source, fixed, None if name in WITH_EDITS else no_edits)
    shown = without_suppressed(report) if options.hide_suppressed else report
    return program_text(name, shown, find_source, rules, settings.documentation)


def _write_remarks(options: CheckOptions, outcome: CheckResult, seconds: float) -> None:
    """Write to stderr what is not a finding: crashes always, the rest as the options ask."""
    for crash in Crash.grouped(outcome.crashes):
        say(f"lintrain: {crash}")
    if not options.quiet:
        for _, line in Unjudged.grouped(outcome.unjudged):
            say(f"lintrain: {line}")
        for note in outcome.notes:
            say(f"lintrain: {note}")
    if options.verbose:
        for line in _details(outcome, seconds):
            say(line)


def _details(outcome: CheckResult, seconds: float) -> Iterator[str]:
    for file in outcome.files:
        if file.suppressed:
            yield f"{file.path}: {count(file.suppressed, 'finding')} suppressed"
    yield f"checked {count(len(outcome.files), 'file')} in {seconds:.2f} s"


def collect_rarely() -> None:
    """Leave out of collection what has been imported, and collect a hundred times less often.

    Syntax trees and findings contain few reference cycles, so that collecting them costs more than it frees.
    """
    gc.freeze()
    gc.set_threshold(300_000, 20, 100)
