"""`lintrain check`: find mistakes in scripts without running anything.

A run whose output depends on nothing but files is answered from the cache before the command is imported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from lintrain.cache.runs import keep_answer
from lintrain.cache.watch import Watch
from lintrain.cli._options import COLORS, STATISTICS, CheckOptions, read_options
from lintrain.cli._output import record_output
from lintrain.cli.completion import complete_selectors
from lintrain.rulebook import rule_folder
from lintrain.settings.settings import FORMATS, LEVELS, MOST_JOBS

EXIT_CODES = """\b
Exit codes:
  0  no findings
  1  findings of any level; with --fail-on or --max-warnings, of some
  2  wrong usage or configuration, a missing file, or a crash of lintrain"""


def _rules_option(name: str, text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(name, multiple=True, metavar="NAMES", help=text, shell_complete=complete_selectors)


@click.command(epilog=EXIT_CODES, short_help="Find mistakes in scripts without running them.")
@click.argument("paths", nargs=-1, type=click.Path())
@_rules_option("--select", "Rules to run: names, stages or ALL, separated by commas.")
@_rules_option("--extend-select", "Rules to run in addition to the selected ones.")
@_rules_option("--ignore", "Rules to skip.")
@click.option(
    "--per-file-ignores", multiple=True, metavar="PATTERN:NAMES", help="Rules to skip in files that match the pattern."
)
@click.option("--preview/--no-preview", default=None, help="Also run preview rules, which may still change.")
@click.option("--baseline", type=click.Path(path_type=Path), help="Hide the findings that this file records.")
@click.option("--no-baseline", is_flag=True, help="Show all findings, without the project's baseline.")
@click.option("--changed-since", metavar="REV", help="Check files changed since REV and files that import them.")
@click.option(
    "--output-format", type=click.Choice(FORMATS), help="Report format (default: full on a terminal, else concise)."
)
@click.option("--output-file", type=click.Path(dir_okay=False, path_type=Path), help="Write the report to this file.")
@click.option("--hide-suppressed", is_flag=True, help="Leave suppressed findings out of json and sarif reports.")
@click.option("--fix", is_flag=True, help="Apply safe fixes and report the remaining findings.")
@click.option("--unsafe-fixes", is_flag=True, help="With --fix or --diff: include unsafe fixes.")
@click.option("--fix-only", is_flag=True, help="Like --fix, but do not report remaining findings.")
@click.option("--diff", is_flag=True, help="Show what --fix would change, without changing any file.")
@click.option("--show-fixes", is_flag=True, help="With --fix or --diff: list the fixes by file and rule.")
@click.option("--exit-non-zero-on-fix", is_flag=True, help="Also exit with 1 if a file was fixed.")
@click.option("--add-ignores", metavar="REASON", help="Suppress each finding by a comment with this reason.")
@click.option("--statistics", is_flag=True, help="Show only the number of findings per rule.")
@click.option("--timings", is_flag=True, help="Also show the CPU time of each rule; without cached results.")
@click.option("--statistics-by", type=click.Choice(STATISTICS), help="Show only the number of findings by this.")
@click.option("--exclude", multiple=True, metavar="PATTERNS", help="Paths to skip; replaces the configured patterns.")
@click.option("--extend-exclude", multiple=True, metavar="PATTERNS", help="Paths to skip, in addition to --exclude.")
@click.option("--force-exclude/--no-force-exclude", default=None, help="Skip excluded files even if they are named.")
@click.option("--respect-gitignore/--no-respect-gitignore", default=None, help="Skip files that git ignores (default).")
@click.option(
    "--target", "targets", multiple=True, metavar="PACKAGE=VERSION", help="Library version that the scripts run with."
)
@click.option("--config", type=click.Path(path_type=Path), help="Configuration file to use.")
@click.option("--isolated", is_flag=True, help="Ignore all configuration files.")
@click.option("--stdin-filename", metavar="NAME", help="File name of the code on standard input (PATHS is `-`).")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even if there are findings.")
@click.option("--fail-on", type=click.Choice(LEVELS), help="Exit with 1 only for findings of this level or worse.")
@click.option(
    "--max-warnings", type=click.IntRange(0), metavar="N", help="Exit with 1 for errors, and for more than N warnings."
)
@click.option("--color", type=click.Choice(COLORS), help="Whether to use colors (default: auto, on a terminal).")
@click.option("--strict/--no-strict", default=None, help="Exit with 3 if a file was not judged by every rule.")
@click.option("--show-files", is_flag=True, help="List the files that would be checked.")
@click.option("--show-settings", is_flag=True, help="Show the settings that would be used.")
@click.option("--cache-dir", metavar="FOLDER", help="Cache folder to use.")
@click.option("--no-cache", is_flag=True, help="Do not use cached results or verdicts of earlier probes.")
@click.option("--jobs", type=click.IntRange(1, MOST_JOBS), help="Maximum number of processes (default: one per CPU).")
@click.option("--watch", is_flag=True, help="Check again whenever a file changes; Ctrl-C stops.")
@click.option("-q", "--quiet", is_flag=True, help="Show findings only, without a summary.")
@click.option("-v", "--verbose", is_flag=True, help="Also count suppressed findings and show the time taken.")
def command(**given: Any) -> int:  # Any: click passes the options above, CheckOptions types them
    """Check scripts, notebooks and folders (default: the current folder) and report mistakes.

    Nothing is run or imported. To suppress a finding, write `# lintrain: ignore[rule] -- reason` on its line.
    """
    from lintrain.cli._check import check
    from lintrain.cli._options import CheckOptions

    return check(CheckOptions(**given))


def run_and_cache(arguments: list[str], key: bytes, run: Callable[[list[str]], int]) -> int:
    """Run the command, cache its output if that depends on files only, and return the exit code."""
    options = read_options(arguments[1:])
    if options is None or not depends_on_files(options):
        return run(arguments)
    with Watch() as watch, record_output() as written:
        code = run(arguments)
    if code in (0, 1) and not watch.is_spoilt:
        for path in _own_files():
            watch.note(path)
        if not watch.is_spoilt:
            keep_answer(arguments, key, watch.seen, code, written)
    return code


def depends_on_files(options: CheckOptions) -> bool:
    """Whether the output of a command depends on nothing but the files that it reads."""
    writes = options.fixes or options.add_ignores is not None or options.output_file is not None
    return not (writes or options.watch or options.reads_stdin or options.changed_since or options.verbose)


def _own_files() -> Iterator[str]:
    """The files of lintrain that ran: in a checkout they change while the version stays."""
    folders = (os.path.dirname(os.path.dirname(__file__)) + os.sep, str(rule_folder()) + os.sep)  # noqa: PTH120 - strings
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file.startswith(folders):
            yield file
