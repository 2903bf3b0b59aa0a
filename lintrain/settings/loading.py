"""Finding and reading the configuration of the files to check."""

from __future__ import annotations

import os.path
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from lintrain.settings.settings import Settings, UsageError
from lintrain.source.reading import read_plain_text
from lintrain.startup.lazy_pattern import lazy_pattern

OWN_FILES = (".lintrain.toml", "lintrain.toml")
PROJECT_FILE = "pyproject.toml"
BASELINE_FILE = "lintrain-baseline.json"
LARGEST_FILE = 1024 * 1024
DEEPEST_KEY = 100
DEEP_KEY = lazy_pattern(
    rf"""(?<![\w-])(?:(?:[\w-]+|"(?:[^"\\\n]|\\.){{0,300}}"|'[^'\n]*')[ \t]*\.[ \t]*){{{DEEPEST_KEY}}}"""
)
"""A key of many parts, whose parsing takes time and memory that grow with their square."""


def load_settings(paths: Iterable[str], config: Path | None = None) -> Settings:
    """The settings for these paths, from `config` or from the nearest configuration at or above their common folder.

    Raises UsageError when the configuration cannot be read.
    """
    if config:
        found = config.resolve()
        if not found.is_file():
            raise UsageError(f"{config}: no such configuration file")
        table = _table_of(found)
        if table is None:
            raise UsageError(f"{config}: no table `[tool.lintrain]`")
        return _settings(found, table)
    folder = common_folder(paths)
    for parent in (folder, *folder.parents):
        for name in (*OWN_FILES, PROJECT_FILE):
            table = _table_of(parent / name) if (parent / name).is_file() else None
            if table is not None:
                return _settings(parent / name, table)
    return Settings(root=Path.cwd())


def common_folder(paths: Iterable[str]) -> Path:
    """The common folder of these files and folders."""
    resolved = [Path(os.path.realpath(path)) for path in paths] or [Path.cwd()]
    common = Path(os.path.commonpath(resolved))
    return common if common.is_dir() else common.parent


def find_baseline(settings: Settings, folder: Path) -> Path | None:
    """The project's baseline: the configured file, else the nearest `lintrain-baseline.json` at or above a folder."""
    if settings.baseline is not None:
        return settings.root / settings.baseline
    return next((found for each in (folder, *folder.parents) if (found := each / BASELINE_FILE).is_file()), None)


def has_table(file: Path) -> bool:
    """Whether a file exists and configures lintrain; raises UsageError if it cannot be read."""
    return file.is_file() and _table_of(file) is not None


def _table_of(file: Path) -> Mapping[str, object] | None:
    """The table of lintrain in a configuration file, or None if a pyproject.toml has none."""
    text = _read(file)
    if file.name == PROJECT_FILE and "lintrain" not in text:
        return None
    parsed = _parse(file, text)
    if file.name in OWN_FILES:
        return parsed
    tool = parsed.get("tool")
    table = cast(Mapping[str, object], tool).get("lintrain") if isinstance(tool, dict) else None
    if table is None:
        return None if file.name == PROJECT_FILE else parsed
    if not isinstance(table, dict):
        raise UsageError(f"{_shown(file)}: `tool.lintrain` must be a table, not `{table}`")
    return cast(Mapping[str, object], table)


def _read(file: Path) -> str:
    try:
        return read_plain_text(file, LARGEST_FILE)
    except OSError as error:
        raise UsageError(f"{file}: {(error.strerror or str(error)).lower()}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file}: not UTF-8") from error


def _parse(file: Path, text: str) -> dict[str, object]:
    import tomllib

    if DEEP_KEY.search(text):
        raise UsageError(f"{_shown(file)}: a key has more than {DEEPEST_KEY} parts")
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise UsageError(f"{_shown(file)}: invalid TOML: nested too deeply") from error
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        raise UsageError(f"{_shown(file)}: invalid TOML: {message[:1].lower()}{message[1:]}") from error
    except ValueError as error:
        raise UsageError(f"{_shown(file)}: a number has more digits than Python can read") from error


def _settings(file: Path, written: Mapping[str, object]) -> Settings:
    from lintrain.settings.table import read_table

    named = f"{_shown(file)} [tool.lintrain]" if file.name == PROJECT_FILE else _shown(file)
    # The table has checked every type, which the checker of this code cannot see.
    values = {name: cast(Any, _frozen(value)) for name, value in read_table(written, named).items()}
    return Settings(root=file.parent, file=file, **values)


def _frozen(value: object) -> object:
    match value:
        case list():
            return tuple(cast(list[object], value))
        case dict():
            return {key: _frozen(item) for key, item in cast(dict[object, object], value).items()}
        case _:
            return value


def _shown(file: Path) -> str:
    return str(file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file)
