"""`lintrain check`: read scripts and say what is wrong with them, without running anything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from lintrain.cli._names import complete_selectors
from lintrain.settings.settings import FORMATS, MOST_JOBS

EXIT_CODES = """\b
Exit codes:
  0  nothing was found
  1  there are findings, of whatever level
  2  the command or its configuration cannot be carried out, a named file
     does not exist, or lintrain itself failed"""


def _listed(name: str, text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(name, multiple=True, metavar="NAMES", help=text, shell_complete=complete_selectors)


@click.command(epilog=EXIT_CODES, short_help="Read scripts and report their mistakes.")
@click.argument("paths", nargs=-1, type=click.Path())
@_listed("--select", "Only these: rule names, stages or ALL, separated by commas.")
@_listed("--extend-select", "These too, on top of what is selected.")
@_listed("--ignore", "Not these.")
@click.option("--per-file-ignores", multiple=True, metavar="PATTERN:NAMES", help="Not these, in files of the pattern.")
@click.option("--preview/--no-preview", default=None, help="Rules in preview, too: young ones, which may still change.")
@click.option("--baseline", type=click.Path(path_type=Path), help="Hide the known findings of this file.")
@click.option("--no-baseline", is_flag=True, help="Show the findings, too, that the project's baseline knows.")
@click.option("--changed-since", metavar="REV", help="Only files changed since this revision, and what imports them.")
@click.option("--output-format", type=click.Choice(FORMATS), help="full on a terminal, concise elsewhere.")
@click.option("--output-file", type=click.Path(dir_okay=False, path_type=Path), help="Write the report there.")
@click.option("--hide-suppressed", is_flag=True, help="Leave out of json and sarif what a comment silences.")
@click.option("--fix", is_flag=True, help="Write the safe fixes into the files, and report what is left.")
@click.option(
    "--unsafe-fixes", is_flag=True, help="With --fix or --diff: the fixes, too, that may change a correct run."
)
@click.option("--fix-only", is_flag=True, help="As --fix, and neither report what is left nor leave with 1 for it.")
@click.option("--diff", is_flag=True, help="Show what --fix would write, and write nothing.")
@click.option("--show-fixes", is_flag=True, help="With these: list what was fixed, by file and rule.")
@click.option("--exit-non-zero-on-fix", is_flag=True, help="Leave with 1 when a file was fixed, too.")
@click.option("--add-ignores", metavar="REASON", help="Write a comment that silences each finding, for this reason.")
@click.option("--statistics", is_flag=True, help="Only count the findings of each rule.")
@click.option("--exclude", multiple=True, metavar="PATTERNS", help="Leave these out of folders, and nothing else.")
@click.option("--extend-exclude", multiple=True, metavar="PATTERNS", help="Leave these out too.")
@click.option("--force-exclude/--no-force-exclude", default=None, help="Leave them out even when they are named.")
@click.option("--respect-gitignore/--no-respect-gitignore", default=None, help="Leave out what git ignores (default).")
@click.option(
    "--target", "targets", multiple=True, metavar="PACKAGE=VERSION", help="The version that scripts run with."
)
@click.option("--config", type=click.Path(path_type=Path), help="Read this configuration file.")
@click.option("--isolated", is_flag=True, help="Read no configuration file.")
@click.option("--stdin-filename", metavar="NAME", help="The name of what comes through stdin (PATHS is `-`).")
@click.option("--exit-zero", is_flag=True, help="Leave with 0 even when there are findings.")
@click.option("--show-files", is_flag=True, help="List the files that would be read.")
@click.option("--show-settings", is_flag=True, help="Show the settings that would be used.")
@click.option("--cache-dir", metavar="FOLDER", help="Keep answers there, instead of in your own cache folder.")
@click.option("--no-cache", is_flag=True, help="Read everything afresh, and show no verdicts of earlier probes.")
@click.option(
    "--jobs", type=click.IntRange(1, MOST_JOBS), help="Read with so many processes at most (default: one per CPU)."
)
@click.option("--watch", is_flag=True, help="Check again whenever a file changes, until Ctrl-C.")
@click.option("-q", "--quiet", is_flag=True, help="Findings only, no summary.")
@click.option("-v", "--verbose", is_flag=True, help="Also say what was not read, and how long it took.")
def command(**given: Any) -> int:  # Any: click hands over what the options above declare, CheckOptions types it
    """Read scripts, notebooks and folders of them (default: this folder), and report their mistakes.

    Nothing is run or imported. A finding is silenced with `# lintrain: ignore[rule] -- reason` on its line.
    """
    import gc

    gc.disable()  # what is imported stays: looking for cycles in it finds none
    from lintrain.cli._check import check
    from lintrain.cli._options import CheckOptions

    gc.enable()
    return check(CheckOptions(**given))
