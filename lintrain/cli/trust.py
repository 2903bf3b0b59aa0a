"""`lintrain trust`: allow rules of the project's own to run on this machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click

from lintrain.cli._output import CommandError, write_report

SHOWN = 12
"""The characters of a digest that are shown."""


@click.command(short_help="Allow the project's own rules to run.")
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--list", "is_listed", is_flag=True, help="List the trusted files.")
@click.option("--revoke", is_flag=True, help="Trust these files no longer; without PATHS, those of this project.")
def command(*, paths: Sequence[Path], is_listed: bool, revoke: bool) -> None:
    """Trust the present content of rule files: in PATHS, or those that the configuration names in `rules`.

    Rules are Python code that a check runs, so read them first. Trust is recorded in your data folder by path and
    content: a file that is changed or moved has to be trusted again. A repository cannot trust its own rules.
    """
    from lintrain.check.own_rules import distrust, trust, trust_file, trusted_files
    from lintrain.rulebook import RuleFileError

    try:
        if is_listed:
            lines: Iterable[str] = _listed(trusted_files())
        elif revoke:
            gone = [str(file) for file in _files(paths)]
            distrust(gone)
            lines = (f"{file}: no longer trusted" for file in gone)
        else:
            lines = (f"{path}: trusted, sha256 {digest[:SHOWN]}…" for path, digest in trust(_files(paths)).items())
        write_report("".join(f"{line}\n" for line in lines))
    except RuleFileError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"{trust_file()}: {(error.strerror or str(error)).lower()}") from error


def _listed(trusted: dict[str, str]) -> Iterator[str]:
    """A line for each trusted file, with its present state."""
    from lintrain.check.own_rules import state_of

    for path, digest in trusted.items():
        yield f"{path}: {state_of(Path(path), digest)}"


def _files(paths: Sequence[Path]) -> list[Path]:
    """The rule files in these paths, or those of the configuration; raises CommandError if there are none."""
    from lintrain.check.own_rules import files_at, rule_files
    from lintrain.settings.loading import load_settings
    from lintrain.settings.settings import UsageError

    try:
        found = [file for path in paths for file in files_at(path)] if paths else rule_files(load_settings(["."]))
    except UsageError as error:
        raise CommandError(str(error)) from error
    if not found:
        where = ", ".join(f"`{path}`" for path in paths) or "the configuration"
        raise CommandError(f"{where}: no rule files")
    return found
