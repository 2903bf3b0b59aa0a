"""What `lintrain check` does with `--fix`, `--diff` and `--add-ignores`; a diff of a notebook has one part per cell."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from difflib import unified_diff

from lintrain.check.check_run import CheckRun
from lintrain.check.fixing import FixedFiles, fix_files
from lintrain.check.ignoring import ignore_findings
from lintrain.check.result import CheckResult
from lintrain.check.selection import CheckRequest
from lintrain.cli._options import CheckOptions
from lintrain.cli._output import say, write_bytes, write_contents, write_document, write_for_people
from lintrain.report.text.frame import count, shown_fixes
from lintrain.report.text.style import Style, style_of
from lintrain.source.reading import read_bytes
from lintrain.source.source import Source
from lintrain.text import shown


def show_diff(options: CheckOptions, request: CheckRequest, outcome: CheckResult) -> int:
    """Show what would be changed; the exit code is 1 if there is something."""
    result = _fixed(options, request, outcome)
    style = Style() if options.output_file else style_of(sys.stdout)
    lines: list[str] = []
    for path, content in result.contents.items():
        lines.extend(diff(result.before[path], read_bytes(path, content), style))
    _write_diff("".join(f"{line}\n" for line in lines), options, style)
    if not options.quiet:
        say(f"lintrain: `--fix` would fix {count(result.fixed.total(), 'finding')}")
    _list_fixes(options, result)
    return 1 if result.contents and not options.exit_zero else 0


def _write_diff(text: str, options: CheckOptions, style: Style) -> None:
    """Write a diff byte for byte if `patch` may read it, and escaped for a terminal or a CI log otherwise."""
    is_on_terminal = style.coloured or sys.stdout.isatty() or bool(os.environ.get("CI") or os.environ.get("TF_BUILD"))
    write = write_for_people if is_on_terminal else write_document
    write(text, options.output_file)


def write_fixes(options: CheckOptions, request: CheckRequest, outcome: CheckResult) -> FixedFiles:
    """Write the fixed files, and fixed standard input to standard output."""
    result = _fixed(options, request, outcome)
    if options.reads_stdin:
        write_bytes({**request.given, **result.contents}[request.files[0]] if request.files else b"")
    else:
        write_contents(result.contents)
    if options.fix_only and not options.quiet:
        say(f"lintrain: fixed {count(result.fixed.total(), 'finding')} in {count(len(result.contents), 'file')}")
    _list_fixes(options, result)
    return result


def _list_fixes(options: CheckOptions, result: FixedFiles) -> None:
    """List the fixed findings by file and rule."""
    if options.show_fixes:
        for line in shown_fixes(result.fixed):
            say(line)


def _fixed(options: CheckOptions, request: CheckRequest, outcome: CheckResult) -> FixedFiles:
    result = fix_files(request, outcome, unsafe=options.unsafe_fixes)
    for note in result.notes:
        say(f"lintrain: {note}")
    return result


def write_ignores(request: CheckRequest, outcome: CheckResult, reason: str) -> CheckResult:
    """Write a suppression comment for every finding, and return the remaining findings."""
    ignored = ignore_findings(request, outcome, reason)
    for note in ignored.notes:
        say(f"lintrain: {note}")
    write_contents(ignored.contents)
    silenced = count(ignored.silenced, "finding")
    say(f"lintrain: suppressed {silenced} in {count(len(ignored.contents), 'file')}")
    return CheckRun(replace(request, given=ignored.contents)).check() if ignored.contents else outcome


COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def diff(before: Source, after: Source, style: Style) -> Iterator[str]:
    """The lines of the diff of a file."""
    old, new = _parts(before), _parts(after)
    for name in new:
        lines = unified_diff(old.get(name, []), new[name], shown(name), shown(name), lineterm="")
        for number, line in enumerate(lines):
            yield style.paint(line, bold=True) if number < 2 else style.paint(line, COLOURS.get(line[:1]))


def _parts(source: Source) -> dict[str, list[str]]:
    """The code of a script under its name, or of each cell of a notebook under the cell's name."""
    if source.notebook is None:
        return {source.path: source.text.removesuffix("\n").split("\n")}
    return {
        f"{source.path}:cell {cell.number}": [
            source.shown_line(line) for line in range(cell.first_line, cell.last_line + 1)
        ]
        for cell in source.notebook.cells
    }
