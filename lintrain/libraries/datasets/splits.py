"""DatasetDict: splits by name, and its methods that do the same to every split."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lintrain.interpreter.core import operations
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import (
    METHODS,
    attribute_of,
    element_of,
    entries_of,
    function,
    method,
    stored_item_of,
    subscript_of,
)
from lintrain.libraries.datasets.deriving import dictionary
from lintrain.libraries.datasets.map import Change, changed, read_change
from lintrain.model.location import Location
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.certainty import UNCERTAIN
from lintrain.pipeline.values.data import ColumnNames, Cut, Dataset, DatasetDict
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Absent,
    Constant,
    Literal,
    Mapping,
    Value,
    join,
    options_of,
    text_of,
)

SAME_AS_SPLITS = (
    "filter",
    "shuffle",
    "select",
    "sort",
    "take",
    "skip",
    "flatten",
    "flatten_indices",
    "rename_column",
    "rename_columns",
    "remove_columns",
    "select_columns",
    "cast",
    "cast_column",
    "class_encode_column",
    "with_format",
    "with_transform",
)
IN_PLACE = ("set_format", "set_transform", "reset_format")


@subscript_of(DatasetDict)
def _split(reader: Reader, value: Value, key: Value, location: Location) -> Value:
    if not isinstance(value, DatasetDict):
        return UNKNOWN
    name = text_of(key)
    if name is not None:
        return value.split(name) or UNKNOWN
    if value.template is not None:
        # An unknown key of unknown splits gets a split of its own for each spelling: `data[args.split]` is
        # the same each time, and another one than `data[args.test_split]`.
        return value.some_split(reader.source.code(location)) or UNKNOWN
    return join(value.splits.values()) if value.is_complete and value.splits else UNKNOWN


@stored_item_of(DatasetDict)
def _store_split(reader: Reader, owner: Value, key: Value, value: Value, location: Location) -> None:
    if not isinstance(owner, DatasetDict):
        return
    name = text_of(key)
    is_certain = len(reader.conditions) <= owner.depth
    if name is not None and isinstance(value, Dataset):
        owner.splits[name] = value if is_certain else _one_of(owner.split(name), value)
        return
    # `for name in data: data[name] = f(data[name])`: each option came out of one split and knows where it
    # goes.
    derived = [option for option in options_of(value) if isinstance(option, Dataset) and option.split]
    if name is None and is_certain and len(derived) == len(options_of(value)):
        owner.splits.update({option.split: option for option in derived if option.split})
        return
    if name is None and is_certain and isinstance(value, Dataset) and not owner.splits and owner.template is None:
        # `for name in data: new[name] = f(data[name])`, where the names are not known: whichever they are.
        owner.template, owner.is_complete = value, False
        return
    _forget(owner, name)


def _one_of(before: Dataset | None, value: Dataset) -> Dataset:
    """A split that code may have replaced: `if "validation" not in data: data["validation"] = load_dataset(…)`."""
    if before is None:
        return replace(value, default=UNCERTAIN)
    if before.columns == value.columns and before.is_complete is value.is_complete:
        # The splits of a dictionary have the same columns, so they stay alike, whichever rows these are.
        return replace(before, default=UNCERTAIN, rows=None, cut=Cut())
    merged = before.merged([value])
    return merged if isinstance(merged, Dataset) else replace(value, columns=None, is_complete=False)


def _forget(owner: DatasetDict, name: str | None) -> None:
    """A split that may be another one now is not known; with an unknown name, that is true of all."""
    owner.is_complete = False
    owner.template = None
    if name is None:
        owner.splits.clear()
    else:
        owner.splits.pop(name, None)


@element_of(DatasetDict)
def _names(reader: Reader, value: Value) -> Value:
    known = isinstance(value, DatasetDict) and value.is_complete and value.splits
    return join([Constant(name) for name in value.splits]) if known and isinstance(value, DatasetDict) else UNKNOWN


@entries_of(DatasetDict)
def _entries(value: Value) -> tuple[dict[Literal, Value], bool]:
    if not isinstance(value, DatasetDict):
        return {}, False
    held: dict[Literal, Value] = dict[Literal, Value](value.splits.items())
    return held, value.is_complete


@attribute_of(DatasetDict)
def _dictionary_attribute(reader: Reader, value: Value, name: str, location: Location) -> Value | None:
    if not isinstance(value, DatasetDict):
        return None
    match name:
        case "column_names":
            return ColumnNames(value)
        case "num_rows":
            return UNKNOWN
        case _:
            return None


@method(DatasetDict, "__len__")
def _count(call: Call) -> Value:
    held, is_complete = _entries(call.receiver)
    return Constant(len(held)) if is_complete else UNKNOWN


@method(DatasetDict, "pop", "get")
def _take(call: Call) -> Value:
    receiver, name = call.receiver, text_of(call.value("key", 0))
    is_there = isinstance(receiver, DatasetDict) and name in receiver.splits
    found = _split(call.reader, receiver, call.value("key", 0), call.location)
    if call.path.endswith("pop") and isinstance(receiver, DatasetDict) and name:
        receiver.splits.pop(name, None)
    if is_there or call.path.endswith("pop") or not isinstance(receiver, DatasetDict) or name is None:
        return found
    other = call.value("default", 1)
    other = Constant(None) if isinstance(other, Absent) else other
    # Of data that is not known, `get` may find the split or not.
    return other if receiver.is_complete else join([found, other])


@function("datasets.DatasetDict", "datasets.IterableDatasetDict", "datasets.dataset_dict.DatasetDict")
def _made(call: Call) -> Value:
    """`DatasetDict({"train": …})`."""
    entries: dict[Literal, Value] = {name: each.value for name, each in call.keywords.items() if name != "**"}
    is_complete = not call.is_open and "**" not in call.keywords
    for argument in call.positional:
        is_complete = operations.update(call.reader, entries, argument.value) and is_complete
    splits = {str(name): split for name, split in entries.items() if isinstance(split, Dataset)}
    for name, split in splits.items():
        # The name under which a split was loaded stays: `DatasetDict({"validation": raw["test"]})` still
        # holds test data.
        split.split = split.split or name
    made = dictionary(call, splits)
    made.is_complete = is_complete and len(splits) == len(entries)
    return made


@method(DatasetDict, "update")
def _update(call: Call) -> Value:
    for argument in call.positional:
        entries = argument.value.entries if isinstance(argument.value, Mapping) else {}
        for name, split in entries.items():
            _store_split(call.reader, call.receiver, Constant(name), split, call.location)
    return Constant(None)


OF_ONE_SPLIT = "method of one split"
"""The use of all splits together as if they were one."""


@method(DatasetDict, "add_column", "shard", "to_csv", "to_json", "to_list", "to_pandas")
@method(DatasetDict, "train_test_split")
def _of_one_split(call: Call) -> Value:
    """A method that each of the splits has, and all of them together have not."""
    if not call.reader.guards and not call.reader.conditions:
        name = call.path.rpartition(".")[2]
        call.reader.record.misuses.append(Misuse(call.location, call.receiver, OF_ONE_SPLIT, name))
    return UNKNOWN


@method(DatasetDict, "map")
def _map(call: Call) -> Value:
    """The mapped function is read once for all splits with the same columns."""
    dictionary = call.receiver
    if not isinstance(dictionary, DatasetDict):
        return UNKNOWN
    read: list[tuple[Dataset, Change]] = []

    def change_of(split: Dataset) -> Change:
        # Reading the function costs as much as a loop's body. Splits of one loading have the same columns,
        # so one reading gives the change for all of them.
        for other, change in read:
            if other.columns == split.columns and other.is_complete is split.is_complete:
                split.read_as_text = other.read_as_text
                return change
        change = read_change(call, split)
        read.append((split, change))
        return change

    return every_split(call, dictionary, lambda split: changed(call, split, change_of(split)))


def every_split(call: Call, before: DatasetDict, do: Callable[[Dataset], Value]) -> Value:
    """The splits that one operation makes of all of them."""
    splits = {name: made for name, split in before.splits.items() if isinstance(made := do(split), Dataset)}
    made = dictionary(call, splits, before)
    template = do(before.template) if before.template is not None else None
    made.template = template if isinstance(template, Dataset) else None
    made.is_complete = before.is_complete
    return made


def _on_each(call: Call) -> Value:
    """A method of DatasetDict that does to each split what the method of Dataset does."""
    before = call.receiver
    if not isinstance(before, DatasetDict):
        return UNKNOWN
    transfer = METHODS[Dataset, call.path.rpartition(".")[2]]

    def do(split: Dataset) -> Value:
        # The transfer of Dataset looks at the call's receiver: it is put back below for code that looks at
        # the call afterwards.
        call.receiver = split
        return transfer(call)

    made = every_split(call, before, do)
    call.receiver = before
    return made


def _in_each(call: Call) -> Value:
    """A method of DatasetDict that changes every split in place."""
    before = call.receiver
    if isinstance(before, DatasetDict):
        transfer = METHODS[Dataset, call.path.rpartition(".")[2]]
        for split in before.every():
            call.receiver = split
            transfer(call)
        call.receiver = before
    return Constant(None)


method(DatasetDict, *SAME_AS_SPLITS)(_on_each)
method(DatasetDict, *IN_PLACE)(_in_each)
