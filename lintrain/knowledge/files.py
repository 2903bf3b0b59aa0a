"""Reads the JSON files of data sets and checkpoints; nothing in them is executed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from lintrain.cache.noted import note, note_asked, note_listed
from lintrain.source.reading import read_plain_text

Json = Mapping[str, object]

_LARGEST_FILE = 4 * 1024 * 1024


def read_json(path: Path) -> Json | None:
    """The object in a JSON file; None for a file that is missing, too large, not JSON or not an object."""
    note(path)
    try:
        loaded: object = json.loads(read_plain_text(path, _LARGEST_FILE))
    except (OSError, ValueError, RecursionError):
        return None
    return as_object(loaded)


def as_object(value: object) -> Json | None:
    """The value if it is a JSON object."""
    return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType] - keys are text in JSON


def as_int(value: object) -> int | None:
    """The value if it is an integer."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def as_text(value: object) -> str | None:
    """The value if it is text."""
    return value if isinstance(value, str) else None


def as_texts(value: object) -> tuple[str, ...]:
    """The value if it is a list of texts, else nothing."""
    items: list[object] = list(value) if isinstance(value, list) else []  # pyright: ignore[reportUnknownArgumentType]
    return tuple(str(item) for item in items)


def is_folder(path: Path) -> bool:
    """Whether a folder exists; False for a path that cannot be looked up."""
    note_asked(path)
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def cached_snapshots(name: str) -> Iterator[Path]:
    """The folders of the hub cache that contain a model, that of its main branch first."""
    repository = hub_cache() / f"models--{name.replace('/', '--')}"
    named = repository / "refs" / "main"
    note(named)
    try:
        main = read_plain_text(named, _LARGEST_FILE).strip()
    except (OSError, ValueError):
        main = ""
    yield from sorted(_folders(repository / "snapshots"), key=lambda folder: folder.name != main)


def cached_dataset_infos(name: str, config: str | None) -> list[Path]:
    """The `dataset_info.json` files of prepared copies of a data set in the cache, for one configuration."""
    prepared = dataset_cache() / name.replace("/", "___")
    configs = [prepared / config] if config else _folders(prepared)
    found = (
        folder / "dataset_info.json" for each in configs for version in _folders(each) for folder in _folders(version)
    )
    return sorted(path for path in found if _is_file(path)) if len(configs) == 1 else []


def _is_file(path: Path) -> bool:
    note_asked(path)
    return path.is_file()


def hub_cache() -> Path:
    """The cache folder of models, from the same environment variables as the hub's own library."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if os.environ.get(variable):
            return Path(os.environ[variable])
    return _home() / "hub"


def dataset_cache() -> Path:
    """The cache folder of prepared data sets."""
    given = os.environ.get("HF_DATASETS_CACHE")
    return Path(given) if given else _home() / "datasets"


def _home() -> Path:
    if os.environ.get("HF_HOME"):
        return Path(os.environ["HF_HOME"])
    # The specification says to ignore a relative path, which would be in the checked project.
    named = os.environ.get("XDG_CACHE_HOME", "")
    cache = named if os.path.isabs(named) else os.path.join(os.path.expanduser("~"), ".cache")  # noqa: PTH111, PTH117, PTH118 - Path.home() raises without a home
    return Path(cache) / "huggingface"


def _folders(folder: Path) -> list[Path]:
    note_listed(folder)
    try:
        return sorted(path for path in folder.iterdir() if is_folder(path))
    except (OSError, ValueError):
        return []
