"""The files of a repository that git may open: regular files only. A pipe would block, and a device has no end."""

# ruff: noqa: PTH110, PTH112, PTH113, PTH116, PTH118, PTH208
# A repository has thousands of objects, and a `Path` costs ten times a string.

from __future__ import annotations

import os
from collections.abc import Iterator

from lintrain.source.plain_files import read_plain
from lintrain.startup.lazy_pattern import lazy_pattern

MOST_ENTRIES = 2_000_000
DEEPEST = 50
MOST_ALTERNATES = 100
LARGEST_LIST = 2**20
OBJECT_FOLDERS = lazy_pattern(r"pack|info|[0-9a-f]{2}")


class UnfitError(Exception):
    """A file of the repository that git must not open; the text says which and why."""


def demand_plain_files(path: str, largest: int | None = None) -> None:
    """Do nothing if a path is not there, a plain file of this size or a folder of such; else raise UnfitError."""
    for count, (found, is_plain) in enumerate(_below(path, 0)):
        if not is_plain:
            raise UnfitError(f"{found}: a pipe or a device, not a file")
        if largest is not None and os.path.exists(found) and os.stat(found).st_size > largest:
            raise UnfitError(f"{found}: larger than {largest >> 20} MiB")
        if count >= MOST_ENTRIES:
            raise UnfitError(f"{path}: holds more than {MOST_ENTRIES:,} files")


def demand_plain_objects(folder: str) -> None:
    """Do the same for a folder of objects, and for the other ones that it names."""
    waiting, seen = [folder], set[str]()
    while waiting:
        objects = os.path.realpath(waiting.pop())
        if objects in seen or not os.path.isdir(objects):
            continue
        seen.add(objects)
        if len(seen) > MOST_ALTERNATES:
            raise UnfitError(f"{folder}: names more than {MOST_ALTERNATES} other folders of objects")
        for name in filter(OBJECT_FOLDERS.fullmatch, os.listdir(objects)):
            demand_plain_files(os.path.join(objects, name))
        waiting.extend(_alternates(objects))


def _alternates(objects: str) -> Iterator[str]:
    file = os.path.join(objects, "info", "alternates")
    if os.path.exists(file):
        for line in read_plain(file, LARGEST_LIST).splitlines():
            if line and not line.startswith(b"#") and b"\0" not in line:
                yield os.path.join(objects, os.fsdecode(line))


def _below(path: str, depth: int) -> Iterator[tuple[str, bool]]:
    """Every file at or below a path, and whether it is plain; a link that leads nowhere is none."""
    if not os.path.isdir(path):
        yield path, os.path.isfile(path) or not os.path.exists(path)
        return
    if depth >= DEEPEST:
        raise UnfitError(f"{path}: nested too deeply")
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                yield entry.path, True
            else:
                yield from _below(entry.path, depth + 1)
