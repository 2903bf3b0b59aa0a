"""What `lintrain check` does with its options."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from lintrain.check.request import Request
from lintrain.check.result import CheckResult, Crash, Unjudged
from lintrain.check.run import Run
from lintrain.check.selection import Selection
from lintrain.cli._options import (
    CheckOptions,
    demand_sense,
    files_of,
    selection_of,
    settings_of,
)
from lintrain.cli._output import Refusal, say, say_text, write_document, write_for_people, write_report
from lintrain.cli._request import request_of
from lintrain.report.text.columns import wrap
from lintrain.report.text.look import Look, look_of
from lintrain.report.text.people import people_blocks
from lintrain.report.text.summary import count, statistics, statistics_json, summary
from lintrain.rulebook import RuleFile, RuleFileError, find_rules
from lintrain.settings.formats import FOR_PEOPLE
from lintrain.settings.settings import Settings, UsageError
from lintrain.source.discovery import MissingPathError
from lintrain.text.shown import shown

CLEAN, FOUND, FAILED = 0, 1, 2


def check(options: CheckOptions) -> int:
    """Carry out the command and give its exit code; raises Refusal."""
    if options.watch:
        from lintrain.cli._watch import watch

        return watch(options, lambda: check(replace(options, watch=False)))
    # Trees and findings hold few cycles: in a run of seconds, collecting costs more than it frees.
    gc.freeze()
    gc.set_threshold(300_000, 20, 100)
    try:
        return _check(options)
    except (UsageError, MissingPathError, RuleFileError) as error:
        raise Refusal(str(error)) from error


def _check(options: CheckOptions) -> int:
    started = time.perf_counter()
    demand_sense(options)
    settings = settings_of(options)
    rules = find_rules()
    selection = selection_of(options, settings, rules)
    if options.show_settings:
        from lintrain.report.text.settings_text import settings_text

        write_report(settings_text(settings, selection))
        return CLEAN
    _speak_of_preview(options, selection, rules)
    files = files_of(options, settings)
    if options.changed_since:
        from lintrain.cli._changed import only_changed

        files = only_changed(options, options.changed_since, files)
    if options.show_files:
        write_report("".join(f"{shown(file)}\n" for file in files))
        return CLEAN
    if not files:
        changed = f" changed since {options.changed_since}" if options.changed_since else ""
        say(f"lintrain: no Python files or notebooks{changed} in {', '.join(f'`{path}`' for path in options.searched)}")
    request = request_of(options, settings, rules, selection, files)
    run = Run(request)
    code = _tell(options, settings, request, run.check(), started)
    run.keep()
    return code


def _tell(options: CheckOptions, settings: Settings, request: Request, outcome: CheckResult, started: float) -> int:
    """Report what was found, or change the files as the options ask; the exit code."""
    if options.add_ignores:
        from lintrain.cli._ignores import write_ignores

        outcome = write_ignores(request, outcome, options.add_ignores)
    if options.mends:
        return _mend(options, settings, request, outcome, started)
    _write(options, settings, report_text(options, settings, outcome, request.rules))
    return _close(options, request, outcome, started)


def _write(options: CheckOptions, settings: Settings, text: str) -> None:
    write = write_for_people if form_of(options, settings) in FOR_PEOPLE else write_document
    write(text, options.output_file)


def _speak_of_preview(options: CheckOptions, selection: Selection, rules: Sequence[RuleFile]) -> None:
    """Say which selected rules stay silent, and that an option has nothing to add."""
    for name in selection.unselected:
        say(f"lintrain: `{name}` is in preview, and heard only with --preview")
    if options.preview and not any(rule.is_preview for rule in rules):
        say("lintrain: no rule of this version is in preview, so --preview adds nothing")


def _mend(options: CheckOptions, settings: Settings, request: Request, outcome: CheckResult, started: float) -> int:
    """Write the fixes, or show them."""
    from lintrain.cli._fix import show_diff, write_fixes

    if options.diff:
        return show_diff(options, request, outcome)
    mended = write_fixes(options, request, outcome)
    is_told_by_code = options.exit_non_zero_on_fix and bool(mended.contents) and not options.exit_zero
    if options.fix_only:
        _remark(options, mended.outcome, time.perf_counter() - started)
        return FAILED if mended.outcome.crashes else FOUND if is_told_by_code else CLEAN
    text = report_text(options, settings, mended.outcome, request.rules, mended.fixed.total())
    if options.reads_stdin and not options.output_file:
        say_text(text.removesuffix("\n"))
    else:
        _write(options, settings, text)
    code = _close(options, request, mended.outcome, started)
    return code or (FOUND if is_told_by_code else CLEAN)


def _close(options: CheckOptions, request: Request, outcome: CheckResult, started: float) -> int:
    """Say what is no finding, and give the exit code."""
    if request.baseline and not options.quiet:
        from lintrain.cli._baseline import remarks

        for remark in remarks(request, options, outcome):
            say(f"lintrain: {remark}")
    _remark(options, outcome, time.perf_counter() - started)
    if outcome.crashes:
        return FAILED
    return FOUND if outcome.reported and not options.exit_zero else CLEAN


def report_text(
    options: CheckOptions, settings: Settings, outcome: CheckResult, rules: Sequence[RuleFile], fixed: int = 0
) -> str:
    """The report in the form that was asked for, with its closing line."""
    name = form_of(options, settings)
    if options.statistics and name == "json":
        return statistics_json(outcome.reported) + "\n"
    if name not in FOR_PEOPLE and not options.statistics:
        return _program_text(name, options, settings, outcome, rules, fixed)
    look = Look() if options.output_file else look_of(sys.stdout)
    if options.statistics:
        blocks, between = statistics(outcome.reported, look), "\n"
    else:
        blocks, between = people_blocks(name, outcome.reported, outcome.sources.get, look)
    body = between.join(blocks)
    if options.quiet or not outcome.files:
        return f"{body}\n" if body else ""
    closing = summary(outcome.reported, len(outcome.files), fixed)
    is_for_person = sys.stdout.isatty() and not options.output_file
    lines = wrap(closing, 0, 2, look.width) if is_for_person else [closing]
    return f"{body}{between if body else ''}{f'{chr(10)}  '.join(lines)}\n"


def form_of(options: CheckOptions, settings: Settings) -> str:
    """The form of the report: the one that was asked for, else the full one for a person at a terminal."""
    return settings.output_format or ("full" if sys.stdout.isatty() and not options.output_file else "concise")


def _program_text(
    name: str, options: CheckOptions, settings: Settings, outcome: CheckResult, rules: Sequence[RuleFile], fixed: int
) -> str:
    from lintrain.report.machine.choice import WITH_EDITS, program_text
    from lintrain.report.machine.document import without_suppressed
    from lintrain.report.machine.entries import check_report, no_edits

    find_source = outcome.sources.get
    if name == "html":
        from lintrain.report.page.checked import checked_page

        closing = summary(outcome.reported, len(outcome.files), fixed)
        unjudged = [line for _, line in Unjudged.told_together(outcome.unjudged)]
        return checked_page(outcome.reported, find_source, closing, unjudged=unjudged)
    report = check_report(outcome, find_source, fixed, None if name in WITH_EDITS else no_edits)
    shown = without_suppressed(report) if options.hide_suppressed else report
    return program_text(name, shown, find_source, rules, settings.documentation)


def _remark(options: CheckOptions, outcome: CheckResult, seconds: float) -> None:
    """Say on stderr what is no finding: failures of lintrain always, the rest as the options ask."""
    for fault in Crash.told_together(outcome.crashes):
        say(f"lintrain: {fault}")
    if not options.quiet:
        for _, line in Unjudged.told_together(outcome.unjudged):
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
    yield f"read {count(len(outcome.files), 'file')} in {seconds:.2f} s"
