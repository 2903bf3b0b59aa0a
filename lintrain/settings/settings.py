"""The settings of one run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from lintrain.core.lazy_dataclass import dataclass
from lintrain.source.discovery import DEFAULT_EXCLUDES

MOST_JOBS = 256
"""Processes that may be asked for."""


class UsageError(Exception):
    """Something that the user asked for and lintrain cannot do; the text says what and where, the run exits with 2."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What to look for, where, and how to say it; patterns of paths are relative to `root`.

    `file` is the configuration file that this was read from, or None.
    """

    root: Path
    file: Path | None = None
    select: tuple[str, ...] = ("ALL",)
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    exclude: tuple[str, ...] = DEFAULT_EXCLUDES
    extend_exclude: tuple[str, ...] = ()
    respect_gitignore: bool = True
    force_exclude: bool = False
    output_format: str | None = None
    preview: bool = False
    jobs: int | None = None
    baseline: str | None = None
    documentation: str | None = None
    levels: Mapping[str, str] = field(default_factory=dict[str, str])
    target_versions: Mapping[str, str] = field(default_factory=dict[str, str])


def checked_address(text: str) -> str:
    """The address of a site as it was written; raises ValueError for anything else."""
    if not text.startswith(("https://", "http://", "file:///")) or any(sign.isspace() for sign in text):
        raise ValueError(f"`{text}` is no address (`https://…`, `http://…`, `file:///…`)")
    return text


def checked_version(text: str) -> str:
    """A version (`4.57.6`) or a range of them (`>=4.40,<5`) as it was written; raises ValueError for anything else."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        SpecifierSet(text if text[:1] in tuple("=<>!~") else f"=={text}")
    except InvalidSpecifier as error:
        raise ValueError(f"`{text}` is not a version") from error
    return text
