"""Where the cache is, and whether its content may be trusted."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence

FOLDER_VARIABLE = "LINTRAIN_CACHE_DIR"
FOLDER_OPTION = "--cache-dir"

OWN = ".lintrain_cache"
"""Our own subfolder of the chosen folder: nothing else there is touched, and no check reads it."""

WRITABLE = stat.S_IWGRP | stat.S_IWOTH


def cache_folder() -> str:
    """The folder that the environment sets, otherwise the user's cache folder."""
    if named := os.environ.get(FOLDER_VARIABLE):
        return named
    if sys.platform == "linux":
        # What platformdirs returns there, without the milliseconds of its import. A relative folder, which the
        # specification of these variables says to ignore, would be one of the project under check.
        named = os.environ.get("XDG_CACHE_HOME", "")
        home = named if os.path.isabs(named) else os.path.join(os.path.expanduser("~"), ".cache")
        return os.path.join(home, "lintrain")
    from platformdirs import user_cache_dir

    return user_cache_dir("lintrain", appauthor=False)


def store_folder(store: str, named: str | os.PathLike[str] | None = None) -> str:
    """The folder for one kind of cached data, below a chosen folder, otherwise below the usual one."""
    return os.path.join(named or cache_folder(), OWN, store)


def folder_for(words: Sequence[str]) -> str:
    """The folder that a command line sets for its reports, otherwise the usual one."""
    for at, word in enumerate(words):
        if word.startswith(f"{FOLDER_OPTION}="):
            return word.partition("=")[2]
        if word == FOLDER_OPTION and at + 1 < len(words):
            return words[at + 1]
    return cache_folder()


def is_ours(store: str) -> bool:
    """Whether only this user can write into our folder or replace it, so that its files may be trusted.

    It and the folder around it are not links. The folders further up may be reached through links, but no other user
    may rename their content.
    """
    own = os.path.dirname(store)
    try:
        real = os.path.realpath(os.path.dirname(own))
        return is_private(os.lstat(store)) and is_private(os.lstat(own)) and is_safe(real)
    except OSError:
        return False


def is_private(state: os.stat_result) -> bool:
    """Whether a folder belongs to this user, and only this user may write into it."""
    if not hasattr(os, "geteuid"):
        return stat.S_ISDIR(state.st_mode)  # Windows: folders of a user are private by inheritance
    return stat.S_ISDIR(state.st_mode) and state.st_uid == os.geteuid() and not state.st_mode & WRITABLE


def is_safe(folder: str) -> bool:
    """Whether in this folder and those around it only the user and the system may rename the entries of the user."""
    if not hasattr(os, "geteuid"):
        return True
    trusted = (0, os.geteuid())
    while True:
        state = os.lstat(folder)
        is_open = state.st_mode & WRITABLE and not state.st_mode & stat.S_ISVTX and not _is_only_for_user(state)
        if state.st_uid not in trusted or is_open:
            return False
        if folder == os.path.dirname(folder):
            return True
        folder = os.path.dirname(folder)


def _is_only_for_user(state: os.stat_result) -> bool:
    """Whether a folder is writable for a group that has no other member: many systems give each user such a one."""
    if state.st_mode & stat.S_IWOTH:
        return False
    import grp
    import pwd

    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(state.st_gid)
    except KeyError:
        return False
    return group.gr_name == user.pw_name and user.pw_gid == group.gr_gid and {*group.gr_mem} <= {user.pw_name}
