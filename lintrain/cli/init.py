"""`lintrain init`: the configuration and the hook of a project that starts to use lintrain."""

from __future__ import annotations

import click


@click.command(short_help="Write the configuration and the hook of this project.")
@click.option("--dry-run", is_flag=True, help="Show what would be written, and write nothing.")
@click.option("--no-hook", is_flag=True, help="Leave `.pre-commit-config.yaml` alone.")
def command(*, dry_run: bool, no_hook: bool) -> int:
    """Look at this project, write its configuration and its pre-commit hook, and say what was done.

    The configuration goes into pyproject.toml where there is one, else into lintrain.toml. What is there already is
    left as it is, so a second run changes nothing.
    """
    from lintrain.cli._init import init

    return init(dry_run=dry_run, with_hook=not no_hook)
