"""Finding and reading the configuration of the files to check."""

from __future__ import annotations

import os.path
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from lintrain.settings.settings import Settings, UsageError
from lintrain.source.bounds import is_within, project_around
from lintrain.source.reading import read_plain, read_plain_text
from lintrain.startup.lazy_pattern import lazy_pattern

OWN_FILES = (".lintrain.toml", "lintrain.toml")
PROJECT_FILE = "pyproject.toml"
CONFIGURATIONS = (*OWN_FILES, PROJECT_FILE)
"""The configuration files, the first of a folder counts."""
BASELINE_FILE = "lintrain-baseline.json"
LARGEST_FILE = 1024 * 1024
MOST_EXTENDED = 10
"""The most configurations that may extend one another."""
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
        if (nearest := _configuration_in(parent, CONFIGURATIONS)) is not None:
            return _settings(*nearest)
    return Settings(root=Path.cwd())


def settings_in(folder: Path, names: Collection[str]) -> Settings | None:
    """The settings that a folder with these files configures; None if it configures none. Raises UsageError.

    A repository may hold pyproject.toml files that are broken on purpose: one that does not name lintrain is not read.
    """
    present = [name for name in CONFIGURATIONS if name in names]
    if present == [PROJECT_FILE] and not _names_lintrain(folder / PROJECT_FILE):
        return None
    found = _configuration_in(folder, present)
    return None if found is None else _settings(*found)


def _names_lintrain(file: Path) -> bool:
    try:
        return b"lintrain" in read_plain(file, LARGEST_FILE)
    except OSError:
        return False


def _configuration_in(folder: Path, names: Iterable[str]) -> tuple[Path, Mapping[str, object]] | None:
    """The configuration file of a folder with its table: the first of these that has one."""
    for name in names:
        table = _table_of(folder / name) if (folder / name).is_file() else None
        if table is not None:
            return folder / name, table
    return None


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
    read = [file]
    # The table has checked every type, which the checker of this code cannot see.
    values = {name: cast(Any, _frozen(value)) for name, value in _values(file, written, read).items()}
    return Settings(root=file.parent, file=file, sources=tuple(read), **values)


def _values(file: Path, written: Mapping[str, object], read: list[Path]) -> dict[str, object]:
    """The settings of a table with those of the configuration that it extends, which is added to the files `read`."""
    from lintrain.settings.table import read_table

    named = f"{_shown(file)} [tool.lintrain]" if file.name == PROJECT_FILE else _shown(file)
    values = read_table(written, named)
    extended = values.pop("extend", None)
    if not isinstance(extended, str):
        return values
    base = _extended(file, extended, f"{named}: `extend`: `{extended}`")
    if base in read or len(read) > MOST_EXTENDED:
        chain = " extends ".join(_shown(each) for each in (*read, base))
        raise UsageError(f"{named}: `extend`: {chain}; a chain may have {MOST_EXTENDED} files, each once")
    table = _table_of(base)
    if table is None:
        raise UsageError(f"{named}: `extend`: `{extended}` has no table `[tool.lintrain]`")
    read.append(base)
    return _joined(_moved(_values(base, table, read), base.parent, file.parent), values)


def _extended(file: Path, extended: str, named: str) -> Path:
    """The configuration that another one extends; raises UsageError if it is missing or outside of the repository.

    A configuration is text of the repository under check, and what it extends is shown in messages.
    """
    base = Path(os.path.realpath(file.parent / extended))
    if not is_within(str(base), os.path.realpath(_repository_around(file.parent))):
        raise UsageError(f"{named} is outside of the repository")
    if not base.is_file():
        raise UsageError(f"{named} does not exist")
    return base


def _repository_around(folder: Path) -> str:
    """The folder of the git repository around a folder; without one, the outermost that is marked as a project."""
    found = str(folder)
    while not os.path.lexists(os.path.join(found, ".git")):  # noqa: PTH118 - a string for `project_around`
        above = project_around(os.path.dirname(found))  # noqa: PTH120
        if above is None or above == found:
            break
        found = above
    return found


def _moved(values: dict[str, object], base: Path, root: Path) -> dict[str, object]:
    """Settings of a configuration in the folder `base`, with their paths relative to `root`."""
    moved = dict(values)
    for name in ("exclude", "extend_exclude"):
        if name in values:
            moved[name] = [_relative(pattern, base, root) for pattern in cast(list[str], values[name])]
    if "per_file_ignores" in values:
        ignores = cast(dict[str, list[str]], values["per_file_ignores"])
        moved["per_file_ignores"] = {_relative(pattern, base, root): names for pattern, names in ignores.items()}
    if "rules" in values:
        moved["rules"] = [os.path.relpath(base / path, root) for path in cast(list[str], values["rules"])]
    if "baseline" in values:
        moved["baseline"] = os.path.relpath(base / cast(str, values["baseline"]), root)
    return moved


def _relative(pattern: str, base: Path, root: Path) -> str:
    """A pattern relative to another folder; a name without a folder matches everywhere."""
    if "/" not in pattern.rstrip("/") or os.path.isabs(pattern):  # noqa: PTH117 - a pattern, not a path
        return pattern
    return os.path.relpath(base / pattern, root).replace(os.sep, "/")


ADDED = frozenset({"extend_select", "extend_exclude", "rules"})
"""Lists that add to those of the extended configuration; tables add their entries too, everything else replaces."""


def _joined(base: dict[str, object], own: dict[str, object]) -> dict[str, object]:
    joined = {**base, **own}
    for name in base.keys() & own.keys():
        first, second = base[name], own[name]
        if isinstance(first, dict) and isinstance(second, dict):
            joined[name] = {**cast(dict[str, object], first), **cast(dict[str, object], second)}
        elif name in ADDED:
            joined[name] = [*cast(list[object], first), *cast(list[object], second)]
    return joined


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
