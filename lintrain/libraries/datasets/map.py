"""`map` and its like: the mapped function is read on symbolic rows, and shows which columns it adds and removes."""

from __future__ import annotations

from dataclasses import field, replace

from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.certainty import is_certain
from lintrain.interpreter.core.registry import ENTRIES, method, of_type
from lintrain.libraries.datasets.columns import column_of, kind_by_name
from lintrain.libraries.datasets.deriving import added_since, derived, listed_in, names_in, recolumned
from lintrain.libraries.datasets.row_counts import copies_of, recounts
from lintrain.model.location import Location
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.shifts import are_next_tokens, are_same_tokens
from lintrain.pipeline.values.data import Column, ColumnNames, ColumnValues, Dataset, Features, Kind, Rows
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Absent,
    Constant,
    Either,
    Literal,
    Mapping,
    Sequence,
    Value,
    is_missing,
    is_true,
    join,
    literal,
    options_of,
)
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(slots=True)
class Change:
    """What a mapped function does to columns: those it sets, and those it takes out (`removed` None: not known which).

    `is_known` is false if it may have set any column; `is_empty` if it gives nothing back. `needs` are the columns that
    it certainly reads; `declared` are the types of all columns after it, if `features=` lists them. `whole` are the
    columns that it sets to floats which are certainly whole numbers. `recounts` if it certainly gives another number of
    rows than it gets, and `copies` are the columns that it sets to values of the rows that it got.
    """

    added: dict[str, Column] = field(default_factory=dict[str, Column])
    removed: set[str] | None = field(default_factory=set[str])
    removes_all_of: ColumnNames | None = None
    is_known: bool = True
    is_empty: bool = False
    needs: tuple[str, ...] = ()
    declared: Features | None = None
    whole: set[str] = field(default_factory=set[str])
    recounts: bool = False
    copies: tuple[str, ...] = ()


@method(Dataset, "map")
def map_dataset(call: Call) -> Value:
    """`dataset.map(function)`."""
    dataset = call.receiver
    return changed(call, dataset, read_change(call, dataset)) if isinstance(dataset, Dataset) else UNKNOWN


def read_change(call: Call, dataset: Dataset) -> Change:
    """Read the mapped function once, on rows of the data set."""
    batched = call.value("batched")
    is_batch = is_true(batched)
    # The function gets one symbolic row, or batch, that notes which columns it reads, sets and removes.
    rows = Rows(dataset, is_batch, depth=len(call.reader.conditions), origin=call.location)
    result = _run(call, dataset, rows)
    # With `batched=args.batched` the function is read as for single rows, but nothing of the result is
    # certain.
    certain = isinstance(batched, Absent | Constant) and literal(batched) in {None, True, False}
    change = _change_of(result, rows, is_batch=is_batch)
    change.is_known = change.is_known and certain and not rows.is_open and len(call.positional) < 2
    _add_removals(call.value("remove_columns"), change, dataset)
    change.needs = tuple(rows.needs)
    if is_batch and recounts(call.value("function", 0), result):
        change.recounts, change.copies = True, copies_of(result, rows)
    declared = call.value("features")
    change.declared = declared if isinstance(declared, Features) else None
    return change


def _run(call: Call, dataset: Dataset, rows: Rows) -> Value:
    """What the function gives for these rows: it gets them whole, or column by column."""
    function = call.argument("function", 0)
    if function is None or is_missing(function.value):
        return UNKNOWN if call.is_open else Constant(None)
    columns = call.value("input_columns")
    positional: list[Value] = [rows]
    if not is_missing(columns):
        names = names_in(columns)
        ordered = columns.items if isinstance(columns, Sequence) else [columns]
        positional = (
            [dispatch.subscript(call.reader, rows, each, call.location) for each in ordered] if names else [UNKNOWN]
        )
    extras = [call.value("with_indices"), call.value("with_rank")]
    positional.extend(UNKNOWN for extra in extras if is_true(extra))
    return dispatch.call(
        call.reader, function.value, positional, _keywords(call.value("fn_kwargs")), location=call.location
    )


def _keywords(given: Value) -> dict[str, Value]:
    entries = given.entries if isinstance(given, Mapping) else {}
    return {name: value for name, value in entries.items() if isinstance(name, str)}


def _change_of(result: Value, rows: Rows, *, is_batch: bool) -> Change:
    """What the function gave back, over what it did to the rows it was given."""
    if isinstance(result, Constant) and result.value is None:
        return Change(is_empty=True)
    if isinstance(result, Either):
        return _either([_change_of(option, rows, is_batch=is_batch) for option in result.options])
    # What the function set on its argument counts, whether or not it returns it: `map` merges both into the
    # row.
    change = _set_by(rows.items, is_batch=is_batch)
    change.removed = set(rows.removed)
    if isinstance(result, Rows):
        return change
    held = of_type(ENTRIES, result)
    if isinstance(result, Mapping):
        entries, is_complete = result.entries, result.is_complete
    elif held is not None:
        entries, is_complete = held(result)
    else:
        return replace(change, is_known=False)
    returned = _set_by(entries, is_batch=is_batch)
    change.added.update(returned.added)
    change.whole = change.whole - returned.added.keys() | returned.whole
    change.is_known = is_complete
    return change


def _set_by(entries: dict[Literal, Value], *, is_batch: bool) -> Change:
    added: dict[str, Column] = {}
    for name, value in entries.items():
        if isinstance(name, str):
            column = column_of(name, value, is_batch=is_batch)
            # `labels` made from `input_ids` of another encoding are not copies of the `input_ids` next to
            # them.
            added[name] = column if _repeats(column, value, entries) else replace(column, copied_from="")
    _compare_targets(added, entries)
    return Change(added, whole={name for name in added if _holds_whole_floats(entries[name])})


def _holds_whole_floats(value: Value) -> bool:
    """Whether a value certainly holds floats that are whole numbers, as `[0.0, 1.0]`."""
    match value:
        case Constant(value=float(number)):
            return number.is_integer()
        case Sequence(items=items) if value.knows_items or len(items) == 1:
            return bool(items) and all(_holds_whole_floats(item) for item in items)
        case Either(options=options):
            return all(_holds_whole_floats(option) for option in options)
        case _:
            return False


def _compare_targets(added: dict[str, Column], entries: dict[Literal, Value]) -> None:
    """Note where labels are the tokens after those of the inputs, and where the decoder is given the labels."""
    labels, tokens, decoder = (_row_of(entries.get(name)) for name in ("labels", "input_ids", "decoder_input_ids"))
    if are_next_tokens(tokens, labels):
        added["labels"] = replace(added["labels"], is_moved=True)
    if are_same_tokens(labels, decoder):
        added["decoder_input_ids"] = replace(added["decoder_input_ids"], copied_from="labels")


def _row_of(value: Value | None) -> Value:
    """One row of a column's values, where they were put together row by row."""
    if isinstance(value, Sequence) and value.items:
        return join(value.items)
    return UNKNOWN if value is None else value


def _repeats(column: Column, value: Value, entries: dict[Literal, Value]) -> bool:
    """Whether a column repeats the values of another column of the same rows, not those of another encoding."""
    original = entries.get(column.copied_from)
    if column.copied_from == column.name or not isinstance(original, ColumnValues):
        return False
    return isinstance(value, ColumnValues) and value.dataset is original.dataset


def _either(changes: list[Change]) -> Change:
    """Branches of a function that give different things: only what all of them set alike is certain."""
    # A branch that returns None leaves the row as it is. It does not make the other branch's columns
    # uncertain, since Arrow needs the same columns in every row.
    kept = [change for change in changes if not change.is_empty]
    if not kept:
        return Change(is_empty=True)
    first, *others = kept
    merged = Change(dict(first.added), first.removed, is_known=all(change.is_known for change in kept))
    for other in others:
        if set(other.added) != set(merged.added) or other.removed != merged.removed:
            merged.is_known = False
        for name, column in other.added.items():
            merged.added[name] = _shared(merged.added.get(name), column)
    return merged


def _shared(known: Column | None, column: Column) -> Column:
    """What two branches agree on of a column."""
    if known is None or known.kind is not column.kind:
        return Column(column.name)
    return column if known == column else Column(column.name, column.kind)


def _add_removals(argument: Value, change: Change, dataset: Dataset) -> None:
    """`remove_columns=`: what the function returns stays, whatever it is called."""
    options = [listed_in(option) for option in options_of(argument)]
    if any(isinstance(option, ColumnNames) for option in options):
        # `names = part.column_names` where `part` is the whole or some rows of it: the same names either way.
        lists = [each for each in options if isinstance(each, ColumnNames) and isinstance(each.dataset, Dataset)]
        are_all = len(lists) == len(options)
        # Of two ways to load the data, names were listed each time on what was loaded.
        own = [each for each in lists if _loading_of(each) is dataset.read_as_text]
        lists = own or lists
        is_one = are_all and all(_loading_of(each) is _loading_of(lists[0]) for each in lists)
        is_one = is_one and all(each.without == lists[0].without for each in lists)
        change.removes_all_of = lists[0] if is_one else None
        change.is_known = change.is_known and is_one
        return
    names = names_in(argument)
    if names is None or change.removed is None:
        change.removed = None
    else:
        change.removed = change.removed.union(names)


def _loading_of(listed: ColumnNames) -> dict[str, Location] | None:
    """By identity: the same for names of one loading."""
    return listed.dataset.read_as_text if isinstance(listed.dataset, Dataset) else None


def changed(call: Call, dataset: Dataset, change: Change, operation: str = "map") -> Dataset:
    """The data set that `map` gives."""
    made = derived(call, dataset, operation)
    if change.removed == set() and change.removes_all_of is None and not change.added:
        # Three answers: True for a `map` that certainly does nothing, None if this is not known.
        made.is_unchanged = True if change.is_empty else None if not change.is_known else False
        if change.is_empty:
            return made
    before, is_complete = _left_over(dataset, change)
    uneven = [*change.copies, *(name for name in before if name not in change.added)]
    if change.recounts and change.is_known and uneven and is_certain(call.reader):
        call.reader.record.misuses.append(Misuse(call.location, dataset, "uneven columns", uneven[0]))
    if not change.is_known:
        # A function that is not understood may set any column, so only the names of before are certain.
        before = {name: Column(name) for name in before}
    added = {name: _as_stored(dataset, name, column, change) for name, column in change.added.items()}
    columns, is_complete = before | added, is_complete and change.is_known
    if change.declared is not None and change.declared.is_complete:
        # The library refuses rows with other columns than the types list.
        columns, is_complete = _declared(change.declared, columns), True
    made.shown = (made.shown | _read_of(dataset, change).keys()) - change.added.keys()
    made = recolumned(made, columns, is_complete=is_complete, opens=not change.is_known)
    for name in change.removed or ():
        made.hidden.pop(name, None)
    if change.removes_all_of is not None:
        made.hidden = {}
    return made


def _as_stored(dataset: Dataset, name: str, column: Column, change: Change) -> Column:
    """A column that the function sets: it keeps the type of an older one of its name.

    The library (datasets 5.2) tries the old type first, even for a column that is removed, and whole floats fit into
    integers: `[0.0, 1.0]` in place of class ids is `[0, 1]` afterwards.
    """
    old = (dataset.columns or {}).get(name)
    if old is None or name not in change.whole or change.declared is not None:
        return column
    if column.kind is Kind.FLOAT and old.kind in {Kind.INTEGER, Kind.CLASS}:
        return replace(column, kind=Kind.INTEGER)
    holds_ids = old.kind is Kind.LIST and (old.item in {Kind.INTEGER, Kind.CLASS} or bool(old.class_names))
    is_list = column.kind is Kind.LIST and column.item is Kind.FLOAT
    return replace(column, item=Kind.INTEGER) if is_list and holds_ids else column


def _declared(features: Features, columns: dict[str, Column]) -> dict[str, Column]:
    """The columns that types list, each as the mapped function shows it, by its name, or as its type is."""
    found = {name: columns.get(name, Column(name, kind_by_name(name))) for name in features.columns}
    return {name: features.columns[name] if each.kind is Kind.UNKNOWN else each for name, each in found.items()}


def _left_over(dataset: Dataset, change: Change) -> tuple[dict[str, Column], bool]:
    """The columns that were there and stay, and whether those are all."""
    columns = _read_of(dataset, change) | (dataset.columns or {})
    listed = change.removes_all_of
    if listed is not None:
        # The names were listed on this data set or on another split of the same loading: nothing of before
        # is left.
        if listed.dataset is dataset or _loading_of(listed) is dataset.read_as_text:
            # One that code left out of the list may be there or not, unless it is known.
            left = {name: column for name, column in columns.items() if name in listed.without}
            return left, dataset.is_complete or listed.without <= left.keys() | change.added.keys()
        since = added_since(listed, dataset)
        if since is not None:
            return since
        known = listed.dataset.columns if isinstance(listed.dataset, Dataset) else None
        taken = (known or {}).keys() - listed.without
        return {name: column for name, column in columns.items() if name not in taken}, False
    if change.removed is None:
        return columns, False
    return {name: column for name, column in columns.items() if name not in change.removed}, dataset.is_complete


def _read_of(dataset: Dataset, change: Change) -> dict[str, Column]:
    """Unknown columns that the function reads in every row: without them it fails."""
    known = dataset.columns or {}
    if dataset.is_complete:
        return {}
    return {name: _read_column(dataset, name) for name in change.needs if name not in known}


def _read_column(dataset: Dataset, name: str) -> Column:
    return Column(name, Kind.TEXT if name in dataset.read_as_text else kind_by_name(name))


@method(Dataset, "filter")
def _filter(call: Call) -> Value:
    """`filter` reads its function for what it does; rows go, columns stay."""
    dataset = call.receiver
    if not isinstance(dataset, Dataset):
        return UNKNOWN
    # The function is run for its effects: which columns it reads is needed by rules, its result only
    # chooses rows.
    rows = Rows(dataset, is_true(call.value("batched")), depth=len(call.reader.conditions))
    _run(call, dataset, rows)
    made = derived(call, dataset, "filter")
    if not made.is_complete and rows.needs:
        read = _read_of(dataset, Change(needs=tuple(rows.needs)))
        made.columns, made.shown = read | (dataset.columns or {}), made.shown | read.keys()
    return made
