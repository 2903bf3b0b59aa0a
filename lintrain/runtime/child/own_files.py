"""The files of the user, listed again only when a module was imported since: a loop asks for them at each step."""

from __future__ import annotations

import os
import sys
from typing import Any

from lintrain.runtime.child.frames import is_users, library_folders, ran_files
from lintrain.runtime.child.library import attribute

State = tuple[int, str, int]
"""How many modules are loaded, the name of the last one, and how many files of the user code was seen to run in."""

_listed: dict[State, list[str]] = {}


def own_files() -> list[str]:
    """The user's own files: of modules that are loaded, and those that code was seen to run in."""
    known = _listed.get(_state())
    if known is None:
        known = _list_files()
        _listed.clear()
        _listed[_state()] = known  # listing them may have added files
    return [*known]


def _state() -> State:
    return len(sys.modules), next(reversed(sys.modules)), len(ran_files)


def modules_to_list() -> list[Any]:
    """The modules among which those of the user are looked for."""
    return list(sys.modules.values())


def _list_files() -> list[str]:
    files = {attribute(module, "__file__", None) for module in modules_to_list()}
    files |= ran_files  # Python takes the script's `__file__` away when it has run
    # Most of thousands are recognized by their path alone: `is_users` asks the disk about each folder of it.
    rest = {file for file in files if isinstance(file, str) and not file.startswith(library_folders())}
    return sorted(os.path.abspath(file) for file in rest if is_users(file))
