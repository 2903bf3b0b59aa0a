"""`lintrain completion`: what makes a shell complete the commands, options and rules of lintrain."""

from __future__ import annotations

import click

SHELLS = {
    "bash": 'eval "$(lintrain completion bash)"    # in ~/.bashrc',
    "zsh": 'eval "$(lintrain completion zsh)"     # in ~/.zshrc',
    "fish": "lintrain completion fish | source    # in ~/.config/fish/config.fish",
}

LINES = "\n".join(f"  {line}" for line in SHELLS.values())


@click.command(short_help="Print what makes a shell complete lintrain.", epilog=f"\b\nTo switch it on:\n{LINES}")
@click.argument("shell", type=click.Choice(tuple(SHELLS)))
def command(shell: str) -> None:
    """Print the completion script of SHELL."""
    from click.shell_completion import get_completion_class

    from lintrain.cli._group import group
    from lintrain.cli._output import write_report

    completion = get_completion_class(shell)
    if completion is not None:
        write_report(completion(group, {}, "lintrain", "_LINTRAIN_COMPLETE").source())
