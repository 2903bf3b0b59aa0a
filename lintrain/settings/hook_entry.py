"""The entry for lintrain in a `.pre-commit-config.yaml`, put in without touching what others wrote there."""

from __future__ import annotations

import re
from typing import cast

from lintrain.knowledge.plain_yaml import read_yaml
from lintrain.knowledge.yaml_values import NotPlainError
from lintrain.startup.lazy_pattern import lazy_pattern

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
