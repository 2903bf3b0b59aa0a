"""What `lintrain check` does with `--fix`, `--diff` and `--add-ignores`."""

from __future__ import annotations

import os
import sys
from dataclasses import replace

from lintrain.check.check_run import CheckRun
from lintrain.check.fixing import FixedFiles, fix_files
from lintrain.check.ignoring import ignore_findings
from lintrain.check.result import CheckResult
from lintrain.check.selection import CheckRequest
from lintrain.cli._options import CheckOptions
from lintrain.cli._output import say, write_bytes, write_contents, write_document, write_for_people
from lintrain.report.text.diff import diff
from lintrain.report.text.judgement import count, shown_fixes
from lintrain.report.text.style import Style, style_of
from lintrain.source.reading import read_bytes


def show_diff(options: CheckOptions, request: CheckRequest, outcome: CheckResult) -> int:
    """Show what would be changed; the exit code is 1 if there is something."""
    mended = _fixed(options, request, outcome)
    style = Style() if options.output_file else style_of(sys.stdout)
    lines: list[str] = []
    for path, content in mended.contents.items():
        lines.extend(diff(mended.before[path], read_bytes(path, content), style))
    _write_diff("".join(f"{line}\n" for line in lines), options, style)
    if not options.quiet:
        say(f"lintrain: `--fix` would fix {count(mended.fixed.total(), 'finding')}")
    _list_fixes(options, mended)
    return 1 if mended.contents and not options.exit_zero else 0


def _write_diff(text: str, options: CheckOptions, style: Style) -> None:
    """Write a diff byte for byte if `patch` may read it, and escaped for a terminal or a CI log otherwise."""
    is_on_terminal = style.coloured or sys.stdout.isatty() or bool(os.environ.get("CI") or os.environ.get("TF_BUILD"))
    write = write_for_people if is_on_terminal else write_document
    write(text, options.output_file)


def write_fixes(options: CheckOptions, request: CheckRequest, outcome: CheckResult) -> FixedFiles:
    """Write the fixed files, and fixed standard input to standard output."""
    mended = _fixed(options, request, outcome)
    if options.reads_stdin:
        write_bytes({**request.given, **mended.contents}[request.files[0]] if request.files else b"")
    else:
        write_contents(mended.contents)
    if options.fix_only and not options.quiet:
        say(f"lintrain: fixed {count(mended.fixed.total(), 'finding')} in {count(len(mended.contents), 'file')}")
    _list_fixes(options, mended)
    return mended


def _list_fixes(options: CheckOptions, mended: FixedFiles) -> None:
    """List the fixed findings by file and rule."""
    if options.show_fixes:
        for line in shown_fixes(mended.fixed):
            say(line)


def _fixed(options: CheckOptions, request: CheckRequest, outcome: CheckResult) -> FixedFiles:
    mended = fix_files(request, outcome, unsafe=options.unsafe_fixes)
    for note in mended.notes:
        say(f"lintrain: {note}")
    return mended


def write_ignores(request: CheckRequest, outcome: CheckResult, reason: str) -> CheckResult:
    """Write a suppression comment for every finding, and return the remaining findings."""
    ignored = ignore_findings(request, outcome, reason)
    for note in ignored.notes:
        say(f"lintrain: {note}")
    write_contents(ignored.contents)
    silenced = count(ignored.silenced, "finding")
    say(f"lintrain: suppressed {silenced} in {count(len(ignored.contents), 'file')}")
    return CheckRun(replace(request, given=ignored.contents)).check() if ignored.contents else outcome
