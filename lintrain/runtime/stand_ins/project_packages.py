"""Packages of the project itself that are not on the path: its documentation installs them, or starts it elsewhere."""

from __future__ import annotations

import itertools
from pathlib import Path

FOLDERS_ABOVE = 3
MOST_FOLDERS = 200
HIDDEN = (".", "__")


def folder_of_package(name: str, script: Path) -> str | None:
    """The folder to import a package from: one above the script's, or one that holds a package of that name."""
    above = [script.parent, *itertools.islice(script.parent.parents, FOLDERS_ABOVE)]
    for folder in dict.fromkeys((Path().absolute(), *above)):
        if _has(folder, name):
            return str(folder)
        # The folder of the user's whole work is not searched, only one that is a project.
        if not any((folder / each).exists() for each in (".git", "pyproject.toml", "setup.py", "README.md")):
            continue
        within = itertools.islice(folder.glob("*/"), MOST_FOLDERS)
        for each in sorted(within):
            if each.is_dir() and not each.name.startswith(HIDDEN) and _has(each, name):
                return str(each)
    return None


def _has(folder: Path, name: str) -> bool:
    """Whether a folder has a package or module of a name; an empty folder, or one of data, is none."""
    return (folder / name / "__init__.py").is_file() or (folder / f"{name}.py").is_file()
