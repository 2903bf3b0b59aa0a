"""What `lintrain init` writes: the first configuration of a project, and its pre-commit hook."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import cast

from lintrain.knowledge.plain_yaml import read_yaml
from lintrain.knowledge.yaml_values import NotPlainError
from lintrain.startup.lazy_pattern import lazy_pattern

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


HOOK_FILE = ".pre-commit-config.yaml"
HAS_HOOK = lazy_pattern(r"""^[ \t]*(?:-[ \t]+)?id:[ \t]*["']?lintrain["']?[ \t]*(?:#.*)?$""", re.MULTILINE)
REPOS = lazy_pattern(r"^repos:[ \t]*(?:#.*)?$", re.MULTILINE)
ITEM = lazy_pattern(r"^(?P<indent>[ ]*)-(?P<gap>[ ]+)\S")

ENTRY = """\
- repo: local
  hooks:
    - id: lintrain
      name: lintrain
      entry: lintrain check --force-exclude
      language: system
      types_or: [python, jupyter]
      require_serial: true
"""
"""The lintrain of the project's own environment, whose versions of the libraries are those that scripts run with."""


def hook_entry(below: str) -> str:
    """The entry for a project that lies in this folder of its repository; empty for the top."""
    return f"{ENTRY}      files: ^{re.escape(below)}/\n" if below else ENTRY


def has_hook(text: str) -> bool:
    """Whether a file of hooks has one of lintrain."""
    return HAS_HOOK.search(text) is not None


def with_hook(text: str, entry: str) -> str | None:
    """The file with the entry last in its list of repositories; None where it is written in a way not understood."""
    if not text.strip():
        return f"repos:\n{_indented(entry, 2)}"
    start = REPOS.search(text)
    if start is None:
        return None
    lines = text[start.end() :].splitlines()
    end = next((at for at, line in enumerate(lines) if re.match(r"[^\s#-]", line)), len(lines))
    while end and not lines[end - 1].strip():
        end -= 1
    item = next((found for line in lines[:end] if (found := ITEM.match(line))), None)
    added = _indented(entry, len(item["indent"]) if item else 2).splitlines()
    after = "\n".join([text[: start.end()] + lines[0], *lines[1:end], *added, *lines[end:]]) + "\n"
    return after if _lists_it_last(after) else None


def _indented(entry: str, indent: int) -> str:
    return "".join(f"{' ' * indent}{line}\n" for line in entry.splitlines())


def _lists_it_last(text: str) -> bool:
    """Whether the file, read again, ends its list with our entry; one that is too rich to be read is trusted."""
    try:
        read = read_yaml(text)
    except NotPlainError:
        return True
    repositories = cast(dict[str, object], read).get("repos") if isinstance(read, dict) else None
    last = cast(list[object], repositories)[-1] if isinstance(repositories, list) and repositories else None
    return isinstance(last, dict) and cast(dict[str, object], last).get("repo") == "local"
