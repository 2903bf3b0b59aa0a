"""Methods of frames: fewer rows, other columns, and what changes a frame where it is."""

from __future__ import annotations

from dataclasses import replace

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.registry import function, method
from lintrain.libraries.datasets.columns import column_of
from lintrain.libraries.pandas.frames import depth_of, open_frame, same_rows, some_rows
from lintrain.libraries.pandas.series import kind_as, literals_returned
from lintrain.pipeline.values.columns import Column, DataFrame, Kind, Series, computed
from lintrain.pipeline.values.data import ColumnValues
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Absent,
    Constant,
    LibraryObject,
    Mapping,
    Sequence,
    Unknown,
    Value,
    is_missing,
    is_true,
    literal,
)


def _given(call: Call, made: DataFrame | None) -> Value:
    """What a method gives: the new frame, or None if `inplace=` asks for a change of the frame itself."""
    frame, in_place = call.receiver, call.value("inplace")
    if not isinstance(frame, DataFrame):
        return UNKNOWN
    if is_missing(in_place) or literal(in_place) is False:
        return made or UNKNOWN
    # With `inplace=` unknown, or under a condition, the frame is either the old one or the new one.
    if made is None or not is_true(in_place) or depth_of(call.reader) > frame.depth:
        frame.forget()
    else:
        frame.become(made)
    return Constant(None)


@method(DataFrame, "copy", "reset_index")
def _same(call: Call) -> Value:
    """The same rows; an index that is not dropped becomes a column."""
    frame = call.receiver
    if not isinstance(frame, DataFrame):
        return UNKNOWN
    made = same_rows(call.reader, frame, call.location)
    if call.path.endswith("reset_index"):
        # `reset_index()` without `drop=True` adds the old index as a column, `index` or the name that it
        # has.
        made.is_complete = frame.is_complete and is_true(call.value("drop"))
        made.is_numbered = True
        made.gaps = None
    return _given(call, made)


@method(DataFrame, "head", "tail", "query", "sort_values", "sort_index", "drop_duplicates", "truncate", "nlargest")
@method(DataFrame, "nsmallest", "dropna", "sample")
def _fewer(call: Call) -> Value:
    """Some of the rows, or all of them in another order; `dropna` along the other axis takes columns out."""
    frame = call.receiver
    if not isinstance(frame, DataFrame):
        return UNKNOWN
    if call.path.endswith("dropna") and (call.positional or not is_missing(call.value("axis"))):
        return _given(call, None)
    made = some_rows(call.reader, frame, call.location)
    # `sample(frac=1)` is how a frame is shuffled: the rows are all still there, in no order.
    if call.path.endswith("sample") and literal(call.value("frac", 1)) == 1 and not is_true(call.value("replace", 2)):
        made.columns, made.rows = dict(frame.columns), frame.rows
    if call.path.endswith(("sort_values", "sort_index")):
        made.columns, made.rows = dict(frame.columns), frame.rows
    # With `ignore_index=True` the index counts the rows from 0 again.
    made.gaps = frame.gaps if is_missing(call.value("ignore_index")) else None
    return _given(call, made)


@method(DataFrame, "rename")
def _rename(call: Call) -> Value:
    """`frame.rename(columns={"review": "text"})`."""
    frame, names = call.receiver, call.value("columns")
    if not isinstance(frame, DataFrame) or not isinstance(names, Mapping) or not names.is_complete:
        return _given(call, None)
    new = {old: literal(value) for old, value in names.entries.items()}
    if call.positional or not all(isinstance(name, str) for name in new.values()):
        return _given(call, None)
    made = same_rows(call.reader, frame, call.location)
    pairs = [(str(new.get(name, name)), column) for name, column in frame.columns.items()]
    made.columns = {name: column.named(name) for name, column in pairs}
    made.sorted_by = str(new.get(frame.sorted_by, frame.sorted_by)) if frame.sorted_by else None
    # Two columns with one name afterwards: which of them `frame["x"]` gives is not followed.
    return _given(call, made if len(made.columns) == len(pairs) else None)


@method(DataFrame, "drop")
def _drop(call: Call) -> Value:
    """`frame.drop(columns=[...])`, `frame.drop("id", axis=1)`, or rows by their index."""
    frame = call.receiver
    if not isinstance(frame, DataFrame) or call.is_open:
        return _given(call, None)
    by_axis = literal(call.value("axis", 1)) in {1, "columns"}
    asked = call.value("labels", 0) if by_axis else call.value("columns")
    if isinstance(asked, Absent):
        # Without `columns=` and `axis=` the labels are those of rows.
        is_of_rows = isinstance(call.value("axis", 1), Absent)
        return _given(call, some_rows(call.reader, frame, call.location) if is_of_rows else None)
    items = asked.items if isinstance(asked, Sequence) and asked.is_complete else [asked]
    names = {literal(item) for item in items}
    if not all(isinstance(name, str) for name in names):
        return _given(call, None)
    made = same_rows(call.reader, frame, call.location)
    made.columns = {name: column for name, column in frame.columns.items() if name not in names}
    made.sorted_by = None if frame.sorted_by in names else frame.sorted_by
    return _given(call, made)


@method(DataFrame, "assign")
def _assign(call: Call) -> Value:
    """`frame.assign(label=...)`."""
    frame = call.receiver
    if not isinstance(frame, DataFrame):
        return UNKNOWN
    made = same_rows(call.reader, frame, call.location)
    made.is_complete = frame.is_complete and not call.is_open
    for name, argument in call.keywords.items():
        call.reader.counted(made.columns)
        made.put(name, column_of(name, argument.value, is_batch=True))
    return made if not call.is_open else UNKNOWN


@method(DataFrame, "astype")
def _as_type(call: Call) -> Value:
    """`frame.astype({"label": int})`."""
    frame, types = call.receiver, call.value("dtype", 0)
    if not isinstance(frame, DataFrame) or (isinstance(types, Mapping) and not types.is_complete):
        return UNKNOWN
    made = same_rows(call.reader, frame, call.location)
    named = types.entries if isinstance(types, Mapping) else dict.fromkeys(frame.columns, types)
    changed = {str(name): kind_as(given) for name, given in named.items() if name in frame.columns}
    made.columns |= {name: replace(frame.columns[name], kind=kind) for name, kind in changed.items()}
    made.sorted_by = None if made.sorted_by in changed else made.sorted_by
    return made


@method(DataFrame, "apply")
def _applied(call: Call) -> Value:
    """`frame.apply(classify, axis=1)`: one value for each row."""
    frame = call.receiver
    if not isinstance(frame, DataFrame) or literal(call.value("axis", 1)) not in {1, "columns"}:
        return computed()
    held = literals_returned(call, call.value("func", 0), Series(Column(""), frame, is_row=True))
    return computed() if held is None else Series(column_of("", Sequence(held), is_batch=True), origin=call.location)


@method(DataFrame, "fillna", "replace", "map", "applymap", "where", "mask", "clip", "round", "ffill", "bfill")
def _recomputed(call: Call) -> Value:
    """Other values in the same columns, for all that is known."""
    frame = call.receiver
    if not isinstance(frame, DataFrame):
        return computed()
    made = same_rows(call.reader, frame, call.location)
    made.columns = {name: Column(name) for name in frame.columns}
    made.sorted_by = None
    return _given(call, made)


@method(DataFrame, "insert", "pop", "update", "eval", "set_index", "set_axis", "join", "merge", "explode")
def _changed(call: Call) -> Value:
    """What may change the frame itself, or gives one that is not known."""
    keeps = call.path.endswith(("join", "merge", "explode")) or (
        call.path.endswith(("eval", "set_index", "set_axis")) and is_missing(call.value("inplace"))
    )
    if isinstance(call.receiver, DataFrame) and not keeps:
        call.receiver.forget()
    gives_frame = call.path.endswith(("join", "merge", "explode", "set_index", "set_axis"))
    return open_frame(call) if gives_frame and is_missing(call.value("inplace")) else UNKNOWN


@function("pandas.concat")
def _together(call: Call) -> Value:
    """`pd.concat([one, other])` of frames that are alike."""
    given = call.value("objs", 0)
    parts = given.items if isinstance(given, Sequence) else []
    frames = [part for part in parts if isinstance(part, DataFrame)]
    is_complete = isinstance(given, Sequence) and given.is_complete
    if not frames or len(frames) < len(parts) or not is_complete or not is_missing(call.value("axis", 1)):
        # Next to a frame even a column is put into one.
        return open_frame(call) if frames else LibraryObject(call.path, call.values(), origin=call.location)
    first, *others = frames
    if any(_kinds(other) != _kinds(first) or not other.is_complete for other in others):
        return open_frame(call)
    made = some_rows(call.reader, first, call.location)
    # Otherwise the index has each number several times, and becomes a column in `Dataset.from_pandas`.
    made.is_numbered = is_true(call.value("ignore_index"))
    made.gaps = None
    return made


def _kinds(frame: DataFrame) -> dict[str, Kind]:
    return {name: column.kind for name, column in frame.columns.items()}


def part_of(call: Call, value: Value) -> Value | None:
    """Some rows of a frame, of a column or of its values, sampled at random; None of anything else."""
    # Without `shuffle` the first part has the first rows, so its index has no gaps.
    gaps = call.location if is_missing(call.value("shuffle")) or is_true(call.value("shuffle")) else None
    match value:
        case DataFrame():
            made = some_rows(call.reader, value, call.location)
            # A random part has rows of all classes, but for a class of a few rows.
            made.columns, made.gaps = dict(value.columns), gaps
            return made
        case Series():
            return Series(value.column, gaps=gaps, origin=call.location)
        case ColumnValues(column=column, dataset=Unknown(), axes=axes):
            return ColumnValues(column, UNKNOWN, axes=axes, origin=call.location)
        case _:
            return None
