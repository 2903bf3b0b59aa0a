"""The settings of a run, and the formats of reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Literal, get_args

from lintrain.source.discovery import DEFAULT_EXCLUDES
from lintrain.startup.lazy_dataclass import dataclass

MOST_JOBS = 256
"""The largest number of processes."""


class UsageError(Exception):
    """A usage error: the text says what is wrong and where, the exit code is 2."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Which rules to run on which files, and how to report; path patterns are relative to `root`.

    `file` is the configuration file, or None; `sources` are all files that were read: this one and those it extends.
    """

    root: Path
    file: Path | None = None
    sources: tuple[Path, ...] = ()
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
    strict: bool = False
    fail_on: str | None = None
    max_warnings: int | None = None
    jobs: int | None = None
    baseline: str | None = None
    documentation: str | None = None
    levels: Mapping[str, str] = field(default_factory=dict[str, str])
    target_versions: Mapping[str, str] = field(default_factory=dict[str, str])
    rules: tuple[str, ...] = ()


def checked_address(text: str) -> str:
    """The address of a website, unchanged; raises ValueError for anything else.

    Reports, terminals and editors make links of it, so it must be a web server: a `file:` address may name a folder on
    another machine, to which Windows would log in.
    """
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(text)
        is_site = parts.scheme in ("https", "http") and bool(parts.hostname) and "@" not in parts.netloc
    except ValueError:
        is_site = False
    if not is_site or not (text.isascii() and text.isprintable()) or any(sign in text for sign in " \"'<>()[]\\`|^{}"):
        raise ValueError(f"`{text}` is not a website (`https://…` or `http://…`)")
    return text


def checked_version(text: str) -> str:
    """A version (`4.57.6`) or a range (`>=4.40,<5`), unchanged; raises ValueError for anything else."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        SpecifierSet(text if text[:1] in tuple("=<>!~") else f"=={text}")
    except InvalidSpecifier as error:
        raise ValueError(f"`{text}` is not a version") from error
    return text


Format = Literal[
    "concise",
    "full",
    "grouped",
    "json",
    "json-lines",
    "junit",
    "github",
    "gitlab",
    "pylint",
    "rdjson",
    "azure",
    "sarif",
    "html",
    "agent",
]
FORMATS: tuple[Format, ...] = get_args(Format)

LEVELS = ("error", "warning", "note")
"""The levels of findings, the worst first."""

FOR_PEOPLE = frozenset[str]({"concise", "full", "grouped"})
"""Formats for a terminal; every other one is UTF-8."""

WITH_SUPPRESSED = frozenset[str]({"json", "sarif"})
"""Formats that contain suppressed findings."""
