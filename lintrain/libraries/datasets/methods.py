"""The methods of a data set that give another one, and those that change it in place."""

from __future__ import annotations

from collections.abc import Iterable

from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.certainty import is_certain
from lintrain.interpreter.core.registry import method
from lintrain.libraries.datasets.columns import column_of, types_of
from lintrain.libraries.datasets.deriving import (
    added_since,
    cut_of,
    derived,
    dictionary,
    listed_in,
    names_in,
    parts_of,
    recolumned,
)
from lintrain.libraries.datasets.rows import note_missing, note_table
from lintrain.pipeline.dataset_rows import rows_of
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.data import Column, Cut, Dataset, DatasetDict, Features, Kind, Rows
from lintrain.pipeline.values.python import (
    ABSENT,
    UNKNOWN,
    Constant,
    Mapping,
    Sequence,
    Value,
    is_missing,
    is_true,
    text_of,
)

OF_TABLES = frozenset({"select", "sort", "flatten_indices"})
"""Methods that an `IterableDataset` does not have (datasets 5.2)."""

PLAIN = frozenset({Kind.TEXT, Kind.INTEGER, Kind.FLOAT, Kind.TOKENS, Kind.MASK, Kind.CLASS})


def operation(call: Call) -> str:
    """The name of the method that is called."""
    return call.path.rpartition(".")[2]


@method(Dataset, "shuffle", "select", "sort", "shard", "take", "skip", "repeat", "flatten_indices")
@method(Dataset, "to_iterable_dataset")
def _same_columns(call: Call) -> Value:
    dataset = call.receiver
    if not isinstance(dataset, Dataset):
        return UNKNOWN
    if operation(call) in OF_TABLES:
        note_table(call.reader, dataset, call.location, operation(call))
    made = derived(call, dataset, operation(call))
    made.cut = cut_of(call, dataset)
    made.rows = _rows_left(call, dataset, made.cut)
    made.is_streaming = made.is_streaming or operation(call) == "to_iterable_dataset"
    return made


@method(Dataset, "flatten")
def _flatten(call: Call) -> Value:
    """Columns with several fields become several columns: of those of plain kinds, none does."""
    dataset = call.receiver
    if not isinstance(dataset, Dataset):
        return UNKNOWN
    made = derived(call, dataset, operation(call))
    made.is_unchanged = None
    if dataset.columns is None:
        return made
    # A column of another kind may be a dictionary: `answers` of SQuAD becomes `answers.text` and
    # `answers.answer_start`.
    plain = {name: column for name, column in dataset.columns.items() if column.kind in PLAIN}
    return recolumned(made, plain, is_complete=dataset.is_complete and len(plain) == len(dataset.columns))


def _rows_left(call: Call, dataset: Dataset, cut: Cut | None) -> int | None:
    match operation(call):
        case "shuffle" | "sort" | "flatten_indices":
            return dataset.rows
        case "select" | "take":
            # For `take` the argument is called `n`, so this is Absent and the count comes from the cut.
            indices = call.value("indices", 0)
            if isinstance(indices, Sequence) and indices.is_complete:
                return len(indices.items)
            return cut.rows if cut else None
        case _:
            return None


@method(Dataset, "rename_column")
def _rename_one(call: Call) -> Value:
    old, new = text_of(call.value("original_column_name", 0)), text_of(call.value("new_column_name", 1))
    return _renamed(call, {old: new} if old and new else None)


@method(Dataset, "rename_columns")
def _rename_several(call: Call) -> Value:
    mapping = call.value("column_mapping", 0)
    if not isinstance(mapping, Mapping) or not mapping.is_complete:
        return _renamed(call, None)
    names = {str(old): text_of(new) for old, new in mapping.entries.items()}
    return _renamed(call, {old: new for old, new in names.items() if new} if all(names.values()) else None)


def _renamed(call: Call, names: dict[str, str] | None) -> Value:
    """The columns under their new names; None if those are not known."""
    dataset = call.receiver
    if not isinstance(dataset, Dataset):
        return UNKNOWN
    made = derived(call, dataset, operation(call))
    if names is None:
        return recolumned(made, {}, is_complete=False, opens=True)
    _note_missing_of(call, dataset, names)
    columns = dataset.columns or {}
    kept = {names.get(name, name): column.named(names.get(name, name)) for name, column in columns.items()}
    # A column that is not known may exist if others may: then its new name exists from here on.
    new = {name: Column(name) for old, name in names.items() if old not in columns and not dataset.is_complete}
    made = recolumned(made, kept | new, is_complete=dataset.is_complete)
    made.read_as_text = {names.get(name, name): location for name, location in dataset.read_as_text.items()}
    return made


def _note_missing_of(call: Call, dataset: Dataset, names: Iterable[str]) -> None:
    """Record the first column that a method is given and that the data set does not have."""
    missing = [name for name in names if name not in (dataset.columns or {})]
    if missing and is_certain(call.reader) and not call.is_open:
        note_missing(call.reader, dataset, missing[0], call.location)


@method(Dataset, "remove_columns")
def _remove(call: Call) -> Value:
    dataset = call.receiver
    if not isinstance(dataset, Dataset):
        return UNKNOWN
    made = derived(call, dataset, "remove_columns")
    listed = listed_in(call.value("column_names", 0))
    names = names_in(listed)
    if names is None:
        # `remove_columns(raw.column_names)` after `map` on data with unknown columns: what is left is what
        # `map` added.
        columns, is_complete = added_since(listed, dataset) or (dict(dataset.columns or {}), False)
        return recolumned(made, columns, is_complete=is_complete)
    _note_missing_of(call, dataset, names)
    left = {name: column for name, column in (dataset.columns or {}).items() if name not in names}
    made = recolumned(made, left, is_complete=dataset.is_complete)
    made.read_as_text = {name: location for name, location in dataset.read_as_text.items() if name not in names}
    made.hidden = {name: column for name, column in dataset.hidden.items() if name not in names}
    return made


@method(Dataset, "select_columns")
def _select_columns(call: Call) -> Value:
    dataset = call.receiver
    names = names_in(call.value("column_names", 0))
    if not isinstance(dataset, Dataset):
        return UNKNOWN
    made = derived(call, dataset, "select_columns")
    if names is None:
        return recolumned(made, dict(dataset.columns or {}), is_complete=False)
    columns = {name: (dataset.columns or {}).get(name, Column(name)) for name in names}
    return recolumned(made, columns, is_complete=True)


@method(Dataset, "add_column")
def _add_column(call: Call) -> Value:
    dataset, name = call.receiver, text_of(call.value("name", 0))
    if not isinstance(dataset, Dataset):
        return UNKNOWN
    made = derived(call, dataset, "add_column")
    if name is None:
        return recolumned(made, dict(dataset.columns or {}), is_complete=False, opens=True)
    column = column_of(name, call.value("column", 1), is_batch=True)
    return recolumned(made, {**(dataset.columns or {}), name: column}, is_complete=dataset.is_complete)


@method(Dataset, "cast_column")
def _cast_column(call: Call) -> Value:
    name = text_of(call.value("column", 0))
    return _cast(call, {name: types_of(call.value("feature", 1))} if name else None)


@method(Dataset, "cast")
def _cast_all(call: Call) -> Value:
    features = call.value("features", 0)
    return _cast(call, dict(features.columns) if isinstance(features, Features) else None)


@method(Dataset, "class_encode_column")
def _class_encode(call: Call) -> Value:
    """The class names are those found in the rows: how many is not known."""
    name = text_of(call.value("column", 0))
    return _cast(call, {name: Column(name, Kind.CLASS)} if name else None)


def _cast(call: Call, types: dict[str, Column] | None) -> Value:
    dataset = call.receiver
    if not isinstance(dataset, Dataset):
        return UNKNOWN
    made = derived(call, dataset, operation(call))
    before = dict(dataset.columns or {})
    if types is None:
        return recolumned(made, {name: Column(name) for name in before}, is_complete=dataset.is_complete)
    # Only columns that exist or may exist: casting an unknown name raises in the library.
    cast = {name: column.named(name) for name, column in types.items() if name in before or not dataset.is_complete}
    return recolumned(made, before | cast, is_complete=dataset.is_complete)


@method(Dataset, "train_test_split")
def _train_test_split(call: Call) -> Value:
    dataset = call.receiver
    if not isinstance(dataset, Dataset):
        return UNKNOWN
    note_table(call.reader, dataset, call.location, "train_test_split")
    splits = {name: derived(call, dataset, "train_test_split") for name in ("train", "test")}
    for (name, made), rows in zip(splits.items(), parts_of(call, rows_of(dataset)), strict=True):
        made.split, made.rows = name, rows
    return dictionary(call, splits)


@method(Dataset, "with_format", "with_transform")
def _with_format(call: Call) -> Value:
    dataset = call.receiver
    if not isinstance(dataset, Dataset):
        return UNKNOWN
    made = derived(call, dataset, operation(call))
    if operation(call) == "with_transform":
        transform(call, made)
    else:
        made.read_as_text = dict(dataset.read_as_text)
        set_format(call, made)
    return made


@method(Dataset, "set_format", "set_transform", "reset_format")
def _set_in_place(call: Call) -> Value:
    dataset = call.receiver
    if isinstance(dataset, Dataset):
        match operation(call):
            case "set_transform":
                transform(call, dataset)
            case "set_format":
                set_format(call, dataset)
            case _:
                dataset.columns = {**(dataset.columns or {}), **dataset.hidden}
                dataset.hidden, dataset.format = {}, None
                # Under a condition the reset may be skipped, and the transform with it stays possible.
                dataset.has_transform = dataset.has_transform and len(call.reader.conditions) > dataset.depth
    return Constant(None)


def transform(call: Call, dataset: Dataset) -> None:
    """Rows go through a function when they are read: what columns they have then is not followed."""
    function = call.argument("transform", 0)
    dataset.has_transform = function is None or not is_missing(function.value)
    is_settled = function is not None and len(call.reader.conditions) <= dataset.depth
    dataset.transform = function.value if function is not None and is_settled else ABSENT
    if function is not None and dataset.has_transform:
        rows = Rows(dataset, True, depth=len(call.reader.conditions), origin=call.location)
        dispatch.call(call.reader, function.value, [rows], location=call.location)
        # What the transform reads must be in the rows when they are read, so these columns may not be
        # removed as unused.
        dataset.needs = dict(rows.needs) if len(call.reader.conditions) <= dataset.depth else {}


def set_format(call: Call, dataset: Dataset) -> None:
    """`set_format(type, columns=[...])`: the other columns are hidden."""
    dataset.columns = {**(dataset.columns or {}), **dataset.hidden} or dataset.columns
    dataset.hidden = {}
    dataset.format = text_of(call.value("type", 0))
    columns = call.value("columns", 1)
    if is_missing(columns) or is_true(call.value("output_all_columns", 2)):
        return
    names = names_in(columns)
    # With unknown names any column may be hidden now. The known ones stay listed, but absence proves
    # nothing.
    if names is None or len(call.reader.conditions) > dataset.depth:
        dataset.is_complete = False
        return
    known = dataset.columns or {}
    dataset.hidden = {name: column for name, column in known.items() if name not in names}
    dataset.columns = {name: known.get(name, Column(name)) for name in names}
    dataset.is_complete = True


@method(Dataset, "compute", "add_batch", "add")
@method(DatasetDict, "compute", "add_batch", "add")
def _taken_for_metric(call: Call) -> Value:
    """A method of metrics, called on a data set."""
    used = call.path.rpartition(".")[2]
    call.reader.record.misuses.append(Misuse(call.location, call.receiver, used, call.text))
    return UNKNOWN
