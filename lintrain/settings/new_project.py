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
"""Usual names of folders with vendored code."""


def starting_table(exclude: Sequence[str], unknown_versions: Sequence[str]) -> str:
    """The table `[tool.lintrain]`: vendored folders, and libraries whose versions are unknown."""
    lines = ["[tool.lintrain]", "# `lintrain check --show-settings` prints every key with its value"]
    if exclude:
        lines.append(f"extend-exclude = {json.dumps(list(exclude), ensure_ascii=False)}")
    if unknown_versions:
        lines += ["", "# No lock file, requirements or environment determines these versions:"]
        lines += ["# [tool.lintrain.target-versions]", *(f'# {package} = "…"' for package in unknown_versions)]
    return "\n".join(lines) + "\n"


def as_own_file(table: str) -> str:
    """The table as a `lintrain.toml`, which has no other."""
    lines = table.splitlines()[1:]
    return "\n".join(line.replace("[tool.lintrain.", "[") for line in lines) + "\n"


def appended(text: str, table: str) -> str:
    """A pyproject.toml with the table appended."""
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
"""The hook runs lintrain in the project's environment, which has the library versions of the scripts."""


def hook_entry(below: str) -> str:
    """The entry for a project in a folder of its repository; `below` is empty for the top."""
    return f"{ENTRY}      files: ^{re.escape(below)}/\n" if below else ENTRY


def has_hook(text: str) -> bool:
    """Whether a hook file has a hook of lintrain."""
    return HAS_HOOK.search(text) is not None


def with_hook(text: str, entry: str) -> str | None:
    """The file with the entry at the end of `repos`; None if the file is written in an unusual way."""
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
    """Whether the list in the new file ends with our entry; YAML that we cannot read is assumed to."""
    try:
        read = read_yaml(text)
    except NotPlainError:
        return True
    repositories = cast(dict[str, object], read).get("repos") if isinstance(read, dict) else None
    last = cast(list[object], repositories)[-1] if isinstance(repositories, list) and repositories else None
    return isinstance(last, dict) and cast(dict[str, object], last).get("repo") == "local"
