"""What `lintrain check` does with `--fix` and `--diff`."""

from __future__ import annotations

import os
import sys

from lintrain.check.fixing import FixedFiles, fix_files
from lintrain.check.request import Request
from lintrain.check.result import CheckResult
from lintrain.cli._options import CheckOptions
from lintrain.cli._output import say, write_bytes, write_contents, write_document, write_for_people
from lintrain.report.text.diff import diff
from lintrain.report.text.look import Look, look_of
from lintrain.report.text.summary import count, shown_fixes
from lintrain.source.reading import read_bytes


def show_diff(options: CheckOptions, request: Request, outcome: CheckResult) -> int:
    """Show what would be written; the exit code says whether there is something."""
    mended = _mend(options, request, outcome)
    look = Look() if options.output_file else look_of(sys.stdout)
    lines: list[str] = []
    for path, content in mended.contents.items():
        lines.extend(diff(mended.before[path], read_bytes(path, content), look))
    _write_diff("".join(f"{line}\n" for line in lines), options, look)
    if not options.quiet:
        say(f"lintrain: `--fix` would mend {count(mended.fixed.total(), 'finding')}")
    _list_fixes(options, mended)
    return 1 if mended.contents and not options.exit_zero else 0


def _write_diff(text: str, options: CheckOptions, look: Look) -> None:
    """Write a diff to the letter if `patch` may read it, and as a terminal or a CI log may show it otherwise."""
    is_watched = look.coloured or sys.stdout.isatty() or bool(os.environ.get("CI") or os.environ.get("TF_BUILD"))
    write = write_for_people if is_watched else write_document
    write(text, options.output_file)


def write_fixes(options: CheckOptions, request: Request, outcome: CheckResult) -> FixedFiles:
    """Write the fixes into their files, and what came through standard input to standard output."""
    mended = _mend(options, request, outcome)
    if options.reads_stdin:
        write_bytes({**request.given, **mended.contents}[request.files[0]] if request.files else b"")
    else:
        write_contents(mended.contents)
    if options.fix_only and not options.quiet:
        say(f"lintrain: {count(mended.fixed.total(), 'finding')} fixed in {count(len(mended.contents), 'file')}")
    _list_fixes(options, mended)
    return mended


def _list_fixes(options: CheckOptions, mended: FixedFiles) -> None:
    """Say which rules' findings were fixed, file by file."""
    if options.show_fixes:
        for line in shown_fixes(mended.fixed):
            say(line)


def _mend(options: CheckOptions, request: Request, outcome: CheckResult) -> FixedFiles:
    mended = fix_files(request, outcome, unsafe=options.unsafe_fixes)
    for note in mended.notes:
        say(f"lintrain: {note}")
    return mended
