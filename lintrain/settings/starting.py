"""The configuration that a project starts with."""

from __future__ import annotations

import json
from collections.abc import Sequence

VENDORED = frozenset(
    {"3rdparty", "extern", "external", "externals", "submodules", "third-party", "third_party", "vendor"}
)
"""Folders of other people's code, by the names that they mostly have."""


def starting_table(exclude: Sequence[str], unknown_versions: Sequence[str]) -> str:
    """The table `[tool.lintrain]`: what lies in the project that is not its own, and versions that nothing tells."""
    lines = ["[tool.lintrain]", "# `lintrain check --show-settings` prints every key with what is in force"]
    if exclude:
        lines.append(f"extend-exclude = {json.dumps(list(exclude), ensure_ascii=False)}")
    if unknown_versions:
        lines += ["", "# No lock file, requirements or environment says which versions the scripts run with:"]
        lines += ["# [tool.lintrain.target-versions]", *(f'# {package} = "…"' for package in unknown_versions)]
    return "\n".join(lines) + "\n"


def as_own_file(table: str) -> str:
    """The table as it stands in a `lintrain.toml`, which is about nothing else."""
    lines = table.splitlines()[1:]
    return "\n".join(line.replace("[tool.lintrain.", "[") for line in lines) + "\n"


def appended(text: str, table: str) -> str:
    """A pyproject.toml with the table at its end."""
    return f"{text.rstrip()}\n\n{table}" if text.strip() else table
