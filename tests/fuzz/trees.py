"""Every file of a folder as an input: the standard library with its tests' bad files, the packages, any other."""

from __future__ import annotations

import sysconfig
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.inputs import Input

NAMED = {"stdlib": "stdlib", "site-packages": "purelib"}
"""Names of `sysconfig` for folders that every Python has."""

LARGEST = 4 * 2**20
"""Bytes of a file; data that happens to be Python is left to the bound of the engine itself."""


def files_of(trees: Sequence[str]) -> list[Path]:
    """The scripts and notebooks below the folders, in order; of the standard library without installed packages."""
    return sorted(path for tree in trees for path in _files(tree))


def _files(tree: str) -> list[Path]:
    folder = Path(sysconfig.get_path(NAMED[tree])) if tree in NAMED else Path(tree)
    if tree == "stdlib":
        return [path for path in _all(folder) if "site-packages" not in path.parts]
    return _all(folder)


def _all(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.suffix in (".py", ".pyi", ".ipynb") and path.is_file()]


def input_of(files: Sequence[Path], number: int) -> Input:
    """The input of a file."""
    path = files[number]
    return Input(path.name, path.read_bytes()[:LARGEST])
