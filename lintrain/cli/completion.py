"""`lintrain completion`, and the names of rules and stages that a shell completes; no rule is loaded."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem


def complete_rules(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:  # noqa: ARG001
    """The rules whose names start with a text."""
    return [CompletionItem(name) for name in _rules() if name.startswith(begun)]


def complete_selectors(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:  # noqa: ARG001
    """The rules, stages and ALL, for the last part of a list with commas."""
    before, comma, last = begun.rpartition(",")
    from lintrain.rulebook import rule_folder, rule_paths

    stages = {path.parent.name for path in rule_paths(rule_folder())}
    return [
        CompletionItem(f"{before}{comma}{name}")
        for name in ("ALL", *sorted(stages), *_rules())
        if name.startswith(last)
    ]


def _rules() -> list[str]:
    from lintrain.builtin import BUILTINS
    from lintrain.rulebook import rule_folder, rule_paths

    return sorted([*BUILTINS, *(path.stem.replace("_", "-") for path in rule_paths(rule_folder()))])


SHELLS = {
    "bash": 'eval "$(lintrain completion bash)"    # in ~/.bashrc',
    "zsh": 'eval "$(lintrain completion zsh)"     # in ~/.zshrc',
    "fish": "lintrain completion fish | source    # in ~/.config/fish/config.fish",
}

LINES = "\n".join(f"  {line}" for line in SHELLS.values())


@click.command(short_help="Print the completion script of a shell.", epilog=f"\b\nTo enable it:\n{LINES}")
@click.argument("shell", type=click.Choice(tuple(SHELLS)))
def command(shell: str) -> None:
    """Print the completion script of SHELL."""
    from click.shell_completion import get_completion_class

    from lintrain.cli._group import group
    from lintrain.cli._output import write_report

    completion = get_completion_class(shell)
    if completion is not None:
        write_report(completion(group, {}, "lintrain", "_LINTRAIN_COMPLETE").source())
