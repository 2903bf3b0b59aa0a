"""The command line: `main` is the entry point, and every file here without an underscore is a command."""

from __future__ import annotations

import sys

USAGE = 2
INTERRUPTED = 130
"""What a shell gives for a program that ended by SIGINT."""


def main() -> None:
    """Run the command line and leave with its exit code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run a command and give its exit code; what it cannot do is said on stderr."""
    import click

    from lintrain.cli._group import group
    from lintrain.cli._output import say

    try:
        code = group.main(arguments, prog_name="lintrain", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        say("lintrain: interrupted")
        return INTERRUPTED
    return code if isinstance(code, int) else 0
