"""Where lintrain keeps what it can make again."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

FOLDER_VARIABLE = "LINTRAIN_CACHE_DIR"
FOLDER_OPTION = "--cache-dir"


def cache_folder() -> str:
    """The folder that the environment names, else the user's own one."""
    if named := os.environ.get(FOLDER_VARIABLE):
        return named
    if sys.platform == "linux":
        # What platformdirs answers there, without the milliseconds of its import. A relative folder, which the
        # specification of these variables has everybody ignore, would be one of the project under check.
        named = os.environ.get("XDG_CACHE_HOME", "")
        home = named if os.path.isabs(named) else os.path.join(os.path.expanduser("~"), ".cache")
        return os.path.join(home, "lintrain")
    from platformdirs import user_cache_dir

    return user_cache_dir("lintrain", appauthor=False)


def folder_for(words: Sequence[str]) -> str:
    """The folder for the answers of a command line, which may name it."""
    for at, word in enumerate(words):
        if word.startswith(f"{FOLDER_OPTION}="):
            return word.partition("=")[2]
        if word == FOLDER_OPTION and at + 1 < len(words):
            return words[at + 1]
    return cache_folder()


def is_ours(folder: str) -> bool:
    """Whether nobody but this user can write into a folder, so that what lies in it may be believed."""
    if not hasattr(os, "geteuid"):
        return os.path.isdir(folder)  # Windows: folders of a user are private by what they inherit
    try:
        state = os.stat(folder)
    except OSError:
        return False
    return state.st_uid == os.geteuid() and not state.st_mode & 0o022
