"""Data files beside a script: the columns, types and labels in the first megabyte of CSV and JSON files, and the JSON
files of data sets and checkpoints. Nothing in them is executed.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from lintrain.cache.noted import note, note_asked, note_listed
from lintrain.knowledge.tables import ColumnFacts, DatasetFacts
from lintrain.source.reading import read_plain_text, read_start
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

MOST_BYTES = 1024 * 1024
MOST_ROWS = 20_000
ROWS_PER_CLASS = 20
"""The average number of rows per class from which the values of a label column are its classes."""
MOST_CLASSES = 100

LABELS = frozenset({"label", "labels", "label_ids"})
MISSING = frozenset(
    {"", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA"}
    | {"NULL", "NaN", "None", "n/a", "nan", "null"}
)
"""Texts that pandas reads as a missing value."""
INTEGER = lazy_pattern(r"\s*[-+]?\d{1,18}\s*")
FLOAT = lazy_pattern(r"\s*[-+]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d+)?\s*|[-+]?inf(?:inity)?", re.IGNORECASE)
TRUTH = frozenset({"True", "False", "TRUE", "FALSE", "true", "false"})

DATE = lazy_pattern(r"\d{4}-\d\d-\d\d")
"""Text that the JSON reader of pandas converts to a date."""

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Peek:
    """The rows at the start of a file; `is_whole` if these are all rows."""

    rows: list[Row]
    is_whole: bool
    is_csv: bool


def file_facts(path: Path, shown_as: str, separator: str | None = None) -> DatasetFacts | None:
    """The content of a CSV file (with this separator) or a file of JSON objects; None if it is missing or has another
    format.

    `splits` has the file's rows under "train" if it was read completely, and is empty otherwise.
    """
    text, is_whole = _start(path)
    if text is None:
        return None
    peek = _json_rows(text, is_whole) if separator is None else _csv_rows(text, is_whole, separator)
    return facts_of_peek(peek, shown_as) if peek is not None and peek.rows else None


def facts_of_peek(peek: Peek, shown_as: str) -> DatasetFacts:
    """The columns, the classes of a label, and the order, as far as these rows show them."""
    source = f"{'all' if peek.is_whole else 'the first'} {len(peek.rows)} rows of {shown_as}"
    columns = {name: _column(name, peek) for name in _names(peek.rows)}
    rows = {"train": len(peek.rows)} if peek.is_whole else {}
    return DatasetFacts(columns, rows, _sorted_by(columns, peek), source=source)


def _start(path: Path) -> tuple[str | None, bool]:
    """The start of a file up to the end of a line, and whether that is the whole file."""
    note(path)
    try:
        raw = read_start(path, MOST_BYTES + 1)
        is_whole = len(raw) <= MOST_BYTES
        return (raw if is_whole else raw[: raw.rfind(b"\n") + 1]).decode("utf-8-sig"), is_whole
    except (OSError, ValueError):
        return None, False


def _csv_rows(text: str, is_whole: bool, separator: str) -> Peek | None:
    """Rows of texts; None if rows are wider than the header: pandas reads these in its own way."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    rows: list[Row] = []
    try:
        names: list[str] = next(reader, list[str]())
        for cells in reader:
            if len(rows) == MOST_ROWS:
                is_whole = False
                break
            if not cells:
                continue
            if len(cells) > len(names):
                return None
            rows.append(dict(zip(names, map(_cell, cells), strict=False)))
    except csv.Error:
        return None
    # The cut may be inside a quoted cell.
    return Peek(rows if is_whole else rows[:-1], is_whole, True) if len(set(names)) == len(names) else None


def _json_rows(text: str, is_whole: bool) -> Peek | None:
    """Rows of JSON lines, or of a list of objects in a file that was read completely."""
    try:
        if text.lstrip().startswith("["):
            content: object = json.loads(text) if is_whole else None
            given: list[object] = list(content) if isinstance(content, list) else []  # pyright: ignore[reportUnknownArgumentType] - any JSON
        else:
            given = [json.loads(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError):
        return None
    rows: list[Row] = [row for each in given[:MOST_ROWS] if (row := as_object(each)) is not None]
    if len(rows) < min(len(given), MOST_ROWS):
        return None
    return Peek(rows, is_whole and len(rows) == len(given), False)


def _cell(text: str) -> object:
    """What pandas reads from a cell, regardless of the other cells of its column."""
    if text in MISSING:
        return None
    if INTEGER.fullmatch(text):
        return int(text)
    if FLOAT.fullmatch(text):
        return float(text)
    return text == "True" if text in TRUTH else text


def _names(rows: Iterable[Row]) -> list[str]:
    return list({name: None for row in rows for name in row})


def _column(name: str, peek: Peek) -> ColumnFacts:
    kinds = {_kind(value) for value in _cells(name, peek)}
    if "text" in kinds and peek.is_csv:
        return ColumnFacts(name, "text")  # a single cell of text turns the whole column into text
    if not peek.is_whole and not kinds <= {"text", "list"}:
        return ColumnFacts(name)  # another type may come later
    if kinds == {"text"} and all(map(_is_number, _cells(name, peek))):
        return ColumnFacts(name)  # pandas converts them to numbers, other libraries do not
    if kinds == {"integer"}:
        has_gaps = any(row.get(name) is None for row in peek.rows)
        return ColumnFacts(name, "float" if has_gaps else "integer", num_classes=_classes(name, peek))
    if kinds == {"integer", "float"}:
        return ColumnFacts(name, "float")
    return ColumnFacts(name, next(iter(kinds)) if len(kinds) == 1 else "unknown")


def _cells(name: str, peek: Peek) -> list[object]:
    """The values of a column, without the missing ones."""
    return [value for row in peek.rows if (value := row.get(name)) is not None]


def _kind(value: object) -> str:
    match value:
        case bool():
            return "unknown"
        case int():
            return "integer"
        case float():
            return "float"
        case list():
            return "list"
        case str() if not DATE.match(value):
            return "text"
        case _:
            return "unknown"


def _is_number(value: object) -> bool:
    try:
        float(str(value))
    except ValueError:
        return False
    return True


def _classes(name: str, peek: Peek) -> int | None:
    """The number of classes of a label column, if its values are 0, 1, 2… and not by chance."""
    values = _integers(name, peek)
    if name not in LABELS or not values:
        return None
    count = len(set(values))
    if not 2 <= count <= MOST_CLASSES or set(values) != set(range(count)) or len(values) < count * ROWS_PER_CLASS:
        return None
    return count if count > 2 or _is_sorted_evenly(values) else None


def _sorted_by(columns: Mapping[str, ColumnFacts], peek: Peek) -> str | None:
    """The label column that the rows are sorted by, if all classes are about equally frequent."""
    for name, column in columns.items():
        if column.num_classes and _is_sorted_evenly(_integers(name, peek)):
            return name
    return None


def _is_sorted_evenly(values: list[int]) -> bool:
    sizes = [values.count(value) for value in set(values)]
    is_sorted = values == sorted(values) or values == sorted(values, reverse=True)
    return is_sorted and max(sizes) - min(sizes) <= 0.02 * len(values)


def _integers(name: str, peek: Peek) -> list[int]:
    """The values of a column of integers; none for any other."""
    values = [value for value in _cells(name, peek) if isinstance(value, int) and not isinstance(value, bool)]
    return values if len(values) == len(peek.rows) else []


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
