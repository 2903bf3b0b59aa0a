"""Finds and fetches the published versions of a package with pip."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

Release = tuple[int, ...]

_SMALLER = {
    "torch": (
        *("--only-binary=:all:", "--python-version", "3.10"),
        *("--platform", "macosx_14_0_arm64", "--platform", "macosx_11_0_arm64"),
    )
}
"""Which files to ask for where those for this machine hold gigabytes of libraries that nobody reads here."""

_OLDER_WHEELS = ("--only-binary=:all:", "--python-version", "3.8", "--platform", "manylinux2014_x86_64")
_OLDER = {"numpy": (1, 25)}
"""Packages whose releases before this one have no wheel for the Python of today."""


def release_of(version: str) -> Release | None:
    """`"4.57.6"` as `(4, 57, 6)`; None for pre-releases and other unusual versions."""
    return tuple(map(int, version.split("."))) if re.fullmatch(r"\d+(\.\d+)*", version) else None


def last_patches(package: str, since: Release) -> list[str]:
    """The last patch of every minor version published since the given one, oldest first."""
    listing = _pip("index", "versions", package)
    found = re.search(r"^Available versions: (.*)$", listing, re.MULTILINE)
    versions = found[1].split(", ") if found else []
    releases = sorted((release, version) for version in versions if (release := release_of(version)) is not None)
    last = {release[:2]: version for release, version in releases if release >= since}
    return list(last.values())


def fetch(package: str, version: str, folder: Path) -> Path:
    """The package file (wheel, or source archive where there is none) of one version, downloaded unless it is there."""
    if (known := _fetched(package, version, folder)) is None:
        _pip(
            "download",
            "--quiet",
            "--no-deps",
            *(_OLDER_WHEELS if _is_older(package, version) else _SMALLER.get(package, ())),
            "--dest",
            str(folder),
            f"{package}=={version}",
        )
        known = _fetched(package, version, folder)
    if known is None:
        raise FileNotFoundError(f"{folder}: pip left no file for {package} {version}")
    return known


def _is_older(package: str, version: str) -> bool:
    return (release_of(version) or ()) < _OLDER.get(package, ())


def _fetched(package: str, version: str, folder: Path) -> Path | None:
    # Keras 1 and 2 have a capital letter in the names of their files.
    starts = (f"{package}-{version}", f"{package.capitalize()}-{version}")
    names = [f"{start}{end}" for end in ("-*.whl", ".tar.gz") for start in starts]
    return next((path for name in names for path in sorted(folder.glob(name))), None)


def _pip(*arguments: str) -> str:
    command = [sys.executable, "-m", "pip", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
