"""Loading data sets from the hub, from files and from disk.

Data sets in CSV, JSON and Parquet files with a literal path: the file shows their columns and labels.
"""

from __future__ import annotations

import os.path
from collections.abc import Mapping as Named
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import function, method
from lintrain.knowledge.tables import DatasetFacts
from lintrain.libraries.datasets.deriving import cut_by_text, derived, dictionary, started
from lintrain.model.location import Location
from lintrain.pipeline.values.certainty import UNCERTAIN, Default
from lintrain.pipeline.values.data import Column, Dataset, DatasetDict, Features, Kind
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Absent,
    Constant,
    Either,
    Mapping,
    Sequence,
    Value,
    first_default,
    is_missing,
    is_true,
    join,
    literal,
    text_of,
)
from lintrain.source.source import whole_text
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from lintrain.knowledge.tables import ColumnFacts


FILE_BUILDERS = frozenset({"csv", "json", "text", "parquet", "arrow", "pandas", "xml", "sql"})
FOLDER_BUILDERS = {
    "imagefolder": {"image": Column("image", Kind.IMAGE)},
    "audiofolder": {"audio": Column("audio", Kind.AUDIO)},
}
TEXT_ONLY = {"text": Column("text", Kind.TEXT, source="one line of a file for each row")}

PART = lazy_pattern(r"(?P<name>\w+)(?:\[(?P<slice>[^\]]*)\])?$")
FIRST_ROWS = lazy_pattern(r":(\d{1,18})$")


@dataclass(slots=True)
class Loaded:
    """What a call loads: the columns as far as they are known, and the names of the splits, None if they are not."""

    columns: dict[str, Column] | None = None
    is_complete: bool = False
    splits: tuple[str, ...] | None = None
    rows: dict[str, int] = field(default_factory=dict[str, int])
    hub_name: str | None = None
    config: str | None = None
    default: Default | None = None
    sorted_by: str | None = None
    unlabelled: tuple[str, ...] = ()


@function("datasets.load_dataset")
def _load_dataset(call: Call) -> Value:
    """`load_dataset(name, config, split=...)`."""
    loaded = _typed(call, _identify(call))
    split = call.value("split")
    if is_missing(split):
        return _all_splits(call, loaded)
    return _some_splits(call, loaded, split)


def _typed(call: Call, loaded: Loaded) -> Loaded:
    """What is loaded, its columns with the types that `features=` gives them."""
    features = call.value("features", 6)
    if is_missing(features):
        return loaded
    if isinstance(features, Features):
        return replace(loaded, columns=dict(features.columns), is_complete=features.is_complete)
    columns = {name: Column(name) for name in loaded.columns} if loaded.columns is not None else None
    return replace(loaded, columns=columns)


def _identify(call: Call) -> Loaded:
    path, config = call.value("path", 0), call.value("name", 1)
    name = text_of(path)
    default = first_default(path, config)
    if name is None:
        return Loaded(default=default)
    # Builders of files come first, since their names are no data sets on the hub: `csv` says how to read
    # `data_files=`.
    if name in FILE_BUILDERS:
        content = content_of(call, name, call.value("data_files", 3))
        if content is not None:
            splits = _file_splits(call)
            return Loaded(content.columns, content.is_complete, splits, content.rows, sorted_by=content.sorted_by)
        return Loaded(TEXT_ONLY if name == "text" else None, name == "text", _file_splits(call))
    if name in FOLDER_BUILDERS:
        return Loaded(FOLDER_BUILDERS[name])
    # Facts are about one configuration. With `name=args.task` the columns depend on the command line.
    is_known = (text_of(config) is not None or is_missing(config)) and _takes_all(call)
    facts = facts_of(call.reader, name, text_of(config)) if is_known else None
    return _from_facts(facts, name, text_of(config), default=default)


def _takes_all(call: Call) -> bool:
    """Whether no other files or types are asked for than those that come under the name."""
    return not call.is_open and all(is_missing(call.value(name)) for name in ("data_files", "data_dir", "features"))


def _from_facts(facts: DatasetFacts | None, name: str, config: str | None, *, default: Default | None) -> Loaded:
    if facts is None:
        return Loaded(hub_name=name, config=config, default=default)
    rows = {split: count for split, count in facts.splits.items() if count is not None}
    columns = columns_of(facts)
    return Loaded(columns, True, tuple(facts.splits), rows, name, config, default, facts.sorted_by, facts.unlabelled)


def _file_splits(call: Call) -> tuple[str, ...] | None:
    """The splits that `data_files=` makes: its keys, or `train` alone."""
    files = call.value("data_files", 3)
    match files:
        case Mapping(entries=entries, is_complete=True):
            return tuple(str(name) for name in entries)
        case Constant(value=str()) | Sequence():
            return ("train",)
        case _:
            return None


def _all_splits(call: Call, loaded: Loaded) -> Value:
    made = DatasetDict(depth=len(call.reader.conditions), origin=call.location)
    if loaded.splits:
        made.splits = {name: _split(call, loaded, name) for name in loaded.splits}
        made.is_complete = True
        # One dictionary for all splits, by identity: it shows later that a list of column names came from a
        # sibling.
        read_as_text: dict[str, Location] = {}
        for split in made.splits.values():
            split.read_as_text = read_as_text
    else:
        made.template = _split(call, loaded, None)
    call.reader.record.datasets.append(made)
    return made


def _split(call: Call, loaded: Loaded, name: str | None) -> Dataset:
    made = started(call, call.path.rpartition(".")[2], loaded.columns, is_complete=loaded.is_complete)
    _name_split(made, name, loaded)
    made.hub_name, made.config = loaded.hub_name, loaded.config
    made.default = loaded.default
    made.is_streaming = is_true(call.value("streaming"))
    return made


def _name_split(made: Dataset, name: str | None, loaded: Loaded) -> None:
    made.split = name
    made.rows = loaded.rows.get(name or "")
    made.sorted_by = loaded.sorted_by if name == "train" else None
    made.is_unlabelled = name in loaded.unlabelled


def _some_splits(call: Call, loaded: Loaded, split: Value) -> Value:
    match split:
        case Constant(value=str(text)):
            made = _split(call, loaded, None)
            _narrow(made, text, loaded)
            made.default = made.default or split.default
            return made
        case Sequence(items=items, is_complete=True):
            return Sequence([_some_splits(call, loaded, item) for item in items], origin=call.location)
        case Either(options=options):
            return join([_some_splits(call, loaded, option) for option in options])
        case Constant():
            return UNKNOWN
        case _:
            # `split=args.split` loads some split: its columns are right, which rows they are is not known.
            return replace(_split(call, loaded, None), default=UNCERTAIN)


def _narrow(made: Dataset, text: str, loaded: Loaded) -> None:
    """`split="train[:100]"`."""
    part = PART.match(text)
    if part is None:
        return
    _name_split(made, part["name"], loaded)
    first = FIRST_ROWS.match(part["slice"] or "")
    if part["slice"] is not None:
        made.cut = cut_by_text(part["slice"], made.rows)
        # `train[:100]` has at most 100 rows. Percentages are rounded by the library, so they give no count
        # here.
        made.rows = int(first[1]) if first else None


@function("datasets.load_from_disk", "datasets.Dataset.load_from_disk", "datasets.DatasetDict.load_from_disk")
def _load_from_disk(call: Call) -> Value:
    """A folder that `save_to_disk` wrote: with it at hand, or if this script wrote it, is it known what is in it."""
    folder = call.value("dataset_path", 0)
    written = call.reader.saved.get(_folder_key(folder))
    if isinstance(written, Dataset):
        return derived(call, written, "load_from_disk")
    if isinstance(written, DatasetDict):
        splits = {name: derived(call, split, "load_from_disk") for name, split in written.splits.items()}
        return dictionary(call, splits, written) if written.is_complete else written
    path = text_of(folder)
    facts = facts_of(call.reader, path) if path else None
    if facts is None:
        return _unread(call)
    loaded = _from_facts(facts, "", None, default=None)
    # A folder is not on the hub, even if the facts were found under a name.
    loaded.hub_name = None
    return _all_splits(call, loaded) if facts.splits else _split(call, loaded, None)


@method(Dataset, "save_to_disk")
@method(DatasetDict, "save_to_disk")
def _save_to_disk(call: Call) -> Value:
    """What the folder holds for the rest of the script."""
    reader, is_dictionary = call.reader, isinstance(call.receiver, DatasetDict)
    folder = call.value("dataset_dict_path" if is_dictionary else "dataset_path", 0)
    key = _folder_key(folder)
    if key is not None:
        reader.saved[key] = call.receiver
        reader.kept.append(folder)
    return Constant(None)


def _folder_key(folder: Value) -> object:
    """The same for two values that certainly name one folder; None if that cannot be said."""
    if isinstance(folder, Constant):
        return folder.value
    return None if folder is UNKNOWN or isinstance(folder, Absent) else id(folder)


def _unread(call: Call) -> Value:
    """A data set or several splits: what the code does with it decides, unless the class method's name shows which."""
    if call.path.endswith("DatasetDict.load_from_disk"):
        return _all_splits(call, Loaded())
    return _split(call, Loaded(), None)


PLAIN = frozenset(
    {"path", "data_files", "path_or_paths", "path_or_buf", "split", "streaming", "cache_dir", "delimiter", "sep"}
    | {"encoding", "keep_in_memory", "num_proc", "download_mode", "verification_mode"}
)
"""Arguments that change nothing about what the columns are."""


@dataclass(frozen=True, slots=True)
class Content:
    """What files hold: the columns of all of them, whether there are no others, and what is known of each split."""

    columns: dict[str, Column]
    is_complete: bool
    rows: dict[str, int]
    sorted_by: str | None


def content_of(call: Call, form: str, files: Value) -> Content | None:
    """What a call reads from `csv`, `json` or `parquet` files; None if that is not certain, or they differ."""
    # Any argument outside PLAIN may rename, drop or convert columns (`names=`, `usecols=`), so the file
    # alone would not tell.
    separator = _separator(call) if form == "csv" else None
    if form not in {"csv", "json", "parquet"} or separator == "" or call.is_open or call.keywords.keys() - PLAIN:
        return None
    facts = {split: _facts(call, text, form, separator) for split, text in _paths(files).items()}
    known = {split: each for split, each in facts.items() if each is not None}
    if not known or len(known) < len(facts):
        return None
    first, *others = (_kinds(each) for each in known.values())
    # Splits with different columns make `load_dataset` raise, or it converts one of them. Neither is
    # followed.
    if any(other != first for other in others):
        return None
    train = known.get("train")
    rows = {split: count for split, each in known.items() if (count := each.splits.get("train")) is not None}
    columns = columns_of(train or next(iter(known.values())))
    return Content(columns, form != "json" or len(rows) == len(known), rows, train.sorted_by if train else None)


def _separator(call: Call) -> str:
    """The separator of a CSV file; empty if it is not known."""
    given = [value for name in ("delimiter", "sep") if not isinstance(value := call.value(name), Absent)]
    if not given:
        return ","
    text = literal(given[0])
    return text if isinstance(text, str) and len(text) == 1 else ""


def _paths(files: Value) -> Named[str, str]:
    """The one file of each split; nothing if a split has several, or one that is not certain."""
    match files:
        case Constant(value=str(text), default=None):
            return {"train": text}
        case Sequence(items=[only], is_complete=True):
            return _paths(only)
        case Mapping(entries=entries, is_complete=True):
            found = {str(split): _paths(file).get("train") for split, file in entries.items()}
            # All or nothing: with one unknown split the others would seem to be the whole data set.
            known = {split: text for split, text in found.items() if text is not None}
            return known if len(known) == len(found) else {}
        case _:
            return {}


def _facts(call: Call, text: str, form: str, separator: str | None) -> DatasetFacts | None:
    name = os.path.basename(text)  # noqa: PTH119
    if call.reader.source.cached(whole_text).count(name) != 1:
        return None  # the script may write the file before it reads it
    # The script's folder before the current one: people start scripts from either, and lintrain from the
    # project's root.
    beside = Path(os.path.dirname(call.reader.record.source.path)) / text  # noqa: PTH120
    return _read(beside, name, form, separator) or _read(Path(text), name, form, separator)


def _read(path: Path, name: str, form: str, separator: str | None) -> DatasetFacts | None:
    if form != "parquet":
        from lintrain.knowledge.data_files import file_facts

        return file_facts(path, name, separator)
    from lintrain.knowledge.parquet_files import parquet_facts

    return parquet_facts(path, name)


def _kinds(facts: DatasetFacts) -> dict[str, str]:
    return {name: column.kind for name, column in facts.columns.items()}


def facts_of(reader: Reader, path: str, config: str | None = None) -> DatasetFacts | None:
    """What a data set of this name or folder has, seen from the script's folder, else from where lintrain runs."""
    # Imported here: most scripts load no data set by name, and the tables take longer to load than such a
    # script to read.
    from lintrain.knowledge.dataset_facts import dataset_facts

    return dataset_facts(path, config, Path(reader.record.source.path).parent) or dataset_facts(path, config)


def columns_of(facts: DatasetFacts) -> dict[str, Column]:
    """The columns, each with the source of its facts."""
    return {name: _column(column, facts.source) for name, column in facts.columns.items()}


def _column(facts: ColumnFacts, source: str) -> Column:
    return Column(facts.name, Kind(facts.kind), facts.class_names, facts.num_classes, source=source)
