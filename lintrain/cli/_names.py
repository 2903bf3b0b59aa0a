"""Names of rules and stages, offered to a shell that completes them; no rule is loaded for it."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem


def complete_rules(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:  # noqa: ARG001
    """The rules whose names begin like this."""
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
