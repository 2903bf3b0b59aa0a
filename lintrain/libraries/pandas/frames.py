"""Frames of pandas: made of literals and files, looked into, and changed where they are."""

from __future__ import annotations

from dataclasses import replace

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import (
    attribute_of,
    function,
    method,
    method_of,
    stored_attribute_of,
    stored_item_of,
    subscript_of,
)
from lintrain.interpreter.shapes import columns_taken
from lintrain.interpreter.tracing import DATA
from lintrain.libraries.datasets.columns import column_of
from lintrain.libraries.datasets.loading import content_of
from lintrain.model.location import Location
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.columns import Column, DataFrame, Indexer, Kind, Series, in_part
from lintrain.pipeline.values.data import ColumnValues
from lintrain.pipeline.values.model import FoldRows, Tensor
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Constant,
    LibraryObject,
    Mapping,
    Sequence,
    Slice,
    Unknown,
    Value,
    literal,
)
from lintrain.pipeline.values.tensors import Operation, RowNumber, Shape, Whole
from lintrain.startup.lazy_pattern import lazy_pattern

FORMS = {"pandas.read_csv": "csv", "pandas.read_json": "json", "pandas.read_parquet": "parquet"}
FILE = frozenset({"filepath_or_buffer", "path_or_buf", "path"})
"""What the functions that read a file call it."""

DATES = lazy_pattern(r"date$|modified$|timestamp|.*(_at|_time)$")
"""Names of the columns that `pandas.read_json` takes for dates."""


def depth_of(reader: Reader) -> int:
    """How far from certain the code under evaluation is: the conditions and loops around it."""
    # Loops count as well: the second iteration sees a frame that the first one has changed.
    return len(reader.conditions) + len(reader.loops) + reader.uncalled


@function("pandas.DataFrame")
def _make(call: Call) -> Value:
    """`pd.DataFrame({"text": [...], "label": [...]})`."""
    given = call.value("data", 0)
    # Any other argument (`columns=`, `index=`, `dtype=`) may choose or convert columns.
    if not isinstance(given, Mapping) or call.is_open or len(call.positional) + len(call.keywords) != 1:
        return open_frame(call)
    call.reader.spend(len(given.entries))
    columns = {str(key): _column(str(key), value) for key, value in given.entries.items()}
    first = next(iter(given.entries.values()), None)
    rows = len(first.items) if isinstance(first, Sequence) and first.is_complete else None
    return DataFrame(columns, given.is_complete, rows, depth=depth_of(call.reader), origin=call.location)


@function(*FORMS)
def _read(call: Call) -> Value:
    """What a file with a literal path holds."""
    path = next((given.value for name, given in call.keywords.items() if name in FILE), call.value("", 0))
    form, keywords = FORMS[call.path], {name: given for name, given in call.keywords.items() if name not in FILE}
    if form == "json" and literal(call.value("orient")) in {None, "records"}:
        keywords = {name: given for name, given in keywords.items() if name not in {"lines", "orient"}}
    reading = replace(call, positional=[Argument(path, call.location)], keywords=keywords)
    content = content_of(reading, form, path) if len(call.positional) < 2 else None
    if content is None:
        is_frame = not call.is_open and not {"chunksize", "iterator", "typ"} & call.keywords.keys()
        return open_frame(call) if is_frame else LibraryObject(call.path, call.values(), origin=call.location)
    columns = {name: _as_read(column, form) for name, column in content.columns.items()}
    rows, depth = content.rows.get("train"), depth_of(call.reader)
    return DataFrame(columns, content.is_complete, rows, content.sorted_by, depth=depth, origin=call.location)


def open_frame(call: Call) -> DataFrame:
    """A frame with columns that are not known."""
    return DataFrame({}, False, depth=depth_of(call.reader), origin=call.location)


@function("pandas.read_excel", "pandas.read_table", "pandas.read_pickle", "pandas.read_feather", "pandas.read_hdf")
@function("pandas.read_sql", "pandas.read_sql_query", "pandas.read_fwf", "pandas.merge", "pandas.get_dummies")
def _read_other(call: Call) -> Value:
    """Frames of other files, and what is put together of frames; of several sheets a dictionary."""
    is_frame = not call.is_open and not {"sheet_name", "chunksize"} & call.keywords.keys()
    return open_frame(call) if is_frame else LibraryObject(call.path, call.values(), origin=call.location)


def _as_read(column: Column, form: str) -> Column:
    """A column as pandas has it, which knows no class labels, and makes dates of what is called so."""
    # `read_json` converts columns with such names to dates (pandas 2 and 3: `convert_dates=True`).
    if form == "json" and DATES.match(column.name):
        return Column(column.name)
    return replace(column, kind=Kind.INTEGER) if column.kind is Kind.CLASS else column


def _column(name: str, value: Value) -> Column:
    """The column that a value becomes: one for all rows, or a list with one for each."""
    return column_of(name, value, is_batch=True)


@subscript_of(DataFrame)
def _look_up(reader: Reader, value: Value, key: Value, location: Location) -> Value:
    """`frame["label"]`, `frame[["text", "label"]]`, `frame[frame["label"] > 0]`, `frame[:100]`."""
    if not isinstance(value, DataFrame):
        return UNKNOWN
    match key:
        case Constant(value=str(name), default=None):
            # The series keeps its frame: `frame["a"][0] = 1` may change the frame, depending on the version
            # of pandas.
            return _column_of(value, name)
        case Constant(value=str(name)):
            # Which column it is rests on an option, but it is one.
            return Series(Column(name), value, gaps=value.gaps)
        case Sequence(items=items, is_complete=True) if all(isinstance(literal(item), str) for item in items):
            return _chosen(reader, value, [literal(item) for item in items], location)
        case Sequence():
            return open_part(reader, value, location)
        case Slice() | Series():
            return some_rows(reader, value, location)
        case _:
            return UNKNOWN


def _column_of(frame: DataFrame, name: str) -> Value:
    """A column by its name: where others than those that are known may be there, one of them."""
    if name in frame.columns:
        return Series(frame.columns[name], frame, gaps=frame.gaps)
    return UNKNOWN if frame.is_complete else Series(Column(name), frame, gaps=frame.gaps)


def open_part(reader: Reader, frame: DataFrame, location: Location) -> DataFrame:
    """A frame with some of the columns of another one, it is not known which."""
    return DataFrame({}, False, depth=depth_of(reader), gaps=frame.gaps, origin=location)


def row_of(frame: DataFrame, location: Location | None = None) -> Series:
    """One row of a frame: the values of its columns by their names."""
    return Series(Column(""), frame, is_row=True, origin=location)


def numbers_of(call_text: str, location: Location, axes: int, kind: str = "", width: int | None = None) -> Tensor:
    """The values of a frame or column as an array; `width` is the number of columns."""
    made = Operation(DATA, location, call_text)
    shape = Shape((None, width) if axes == 2 else (None,) * axes, False)
    return Tensor(text=call_text, made=made, shape=shape, kind=kind, origin=location)


def _chosen(reader: Reader, frame: DataFrame, names: list[object], location: Location) -> Value:
    """The columns of these names, all of which must be text."""
    texts = [name for name in names if isinstance(name, str)]
    if len(texts) < len(names) or (frame.is_complete and not set(texts) <= frame.columns.keys()):
        return UNKNOWN
    made = same_rows(reader, frame, location)
    made.columns = {name: frame.columns.get(name, Column(name)) for name in texts}
    made.is_complete = True
    return made


def same_rows(reader: Reader, frame: DataFrame, location: Location) -> DataFrame:
    """A frame of its own with the same rows."""
    return replace(frame, columns=dict(reader.counted(frame.columns)), depth=depth_of(reader), origin=location)


def some_rows(reader: Reader, frame: DataFrame, location: Location) -> DataFrame:
    """A frame with some of the rows, in an order of its own."""
    # A part of the rows need not contain every class, and is not sorted by what the whole was sorted by.
    columns = {name: in_part(column) for name, column in reader.counted(frame.columns).items()}
    depth = depth_of(reader)
    return DataFrame(columns, frame.is_complete, None, None, False, depth, gaps=frame.gaps, origin=location)


@attribute_of(DataFrame)
def _attribute(reader: Reader, value: Value, name: str, location: Location) -> Value | None:
    if not isinstance(value, DataFrame):
        return None
    if name in {"loc", "iloc", "at", "iat"}:
        return Indexer(value, name in {"loc", "at"}, origin=location)
    if name == "columns":
        return Sequence([Constant(column) for column in value.columns], "list", value.is_complete)
    if name == "values":
        return numbers_of(reader.code(location), location, 2, width=value.count)
    if method_of(value, name) is None and (name in value.columns or (not value.is_complete and name.islower())):
        return None if name in FRAME_NAMES else _column_of(value, name)
    return None


@subscript_of(Indexer)
def _locate(reader: Reader, value: Value, key: Value, location: Location) -> Value:
    """`frame.iloc[:100]`, `frame.loc[frame["label"] > 0]`."""
    if not isinstance(value, Indexer):
        return UNKNOWN
    frame = value.frame
    if value.is_by_label:
        note_label(reader, frame, _row_in(key), location)
    match key:
        case FoldRows() | Sequence(items=[FoldRows(), _]):
            return _of_fold(reader, frame, key, location)
        case Slice() | Series():
            return some_rows(reader, frame, location)
        case Sequence(items=[Slice() | Series(), Constant(value=str(name))]):
            return _column_of(frame, name)
        case Sequence(items=[Slice() | Series(), Constant(value=int())]):
            return Series(Column(""), frame, gaps=frame.gaps)
        case Sequence(items=[Slice() | Series(), Slice() | Sequence() as columns]):
            return replace(open_part(reader, frame, location), width=_width(columns, frame.count))
        case Sequence(items=[Constant() | Unknown(), Constant(value=str(name))]):
            return ColumnValues(frame.columns.get(name, Column(name)), axes=_axes(key), origin=location)
        case Sequence(items=[Constant() | Unknown(), Constant(value=int())]):
            return ColumnValues(Column(""), axes=_axes(key), origin=location)
        case Sequence(items=[Constant() | Whole(), Slice() | Sequence()]):
            return row_of(frame, location)
        case Constant() | Whole():
            return row_of(frame, location)
        case _:
            return UNKNOWN


def _of_fold(reader: Reader, frame: DataFrame, key: Value, location: Location) -> Value:
    """Rows of a fold, with all columns or some: their index has the numbers that they have in the whole."""
    # A fold that keeps its order leaves out the rows of the other part all the same.
    part = replace(some_rows(reader, frame, location), gaps=_row_in(key).origin)
    return _locate(reader, Indexer(part), _of_all_rows(key), location) if isinstance(key, Sequence) else part


def _of_all_rows(key: Sequence) -> Sequence:
    return replace(key, items=[Slice(), *key.items[1:]])


def _row_in(key: Value) -> Value:
    """The rows of a key that may choose columns as well: `frame.loc[row, "label"]`."""
    return key.items[0] if isinstance(key, Sequence) and key.kind == "tuple" and key.items else key


LABEL = "label"
"""The use of a frame or column by the number of a row, where its index has gaps."""


def note_label(reader: Reader, owner: DataFrame | Series, key: Value, location: Location) -> None:
    """Record that the number of a row is looked up in an index that lacks some of them."""
    if owner.gaps is None or not isinstance(key, RowNumber) or reader.guards:
        return
    # Code under a condition may have asked what it is given.
    if len(reader.conditions) <= key.depth:
        reader.record.misuses.append(Misuse(location, owner, LABEL, reader.code(location)))


def _width(columns: Slice | Sequence, count: int | None) -> int | None:
    """How many columns `iloc` chooses by numbers; a part that ends at a number is taken to be there."""
    if isinstance(columns, Sequence):
        is_numbered = columns.is_complete and all(isinstance(literal(each), int) for each in columns.items)
        return len(columns.items) if is_numbered else None
    return columns_taken(columns, count)


def _axes(key: Sequence) -> int | None:
    """The axes of what is at one row; an unknown thing may stand for several."""
    return 0 if isinstance(key.items[0], Constant | Whole) else None


FRAME_NAMES = frozenset({"shape", "size", "index", "dtypes", "empty", "ndim", "axes", "attrs", "plot", "style"})
"""Attributes of every frame, whatever its columns are."""


@method(DataFrame, "to_numpy")
def _to_numpy(call: Call) -> Value:
    width = call.receiver.count if isinstance(call.receiver, DataFrame) else None
    return numbers_of(call.text, call.location, 2, width=width)


@method(DataFrame, "iterrows")
def _rows(call: Call) -> Value:
    """`for index, row in frame.iterrows()`."""
    if not isinstance(call.receiver, DataFrame):
        return UNKNOWN
    pair = Sequence([Unknown(name="index"), row_of(call.receiver, call.location)], "tuple")
    return Sequence([pair], "list", False, True, origin=call.location)


@stored_item_of(DataFrame)
def _store(reader: Reader, owner: Value, key: Value, value: Value, location: Location) -> None:
    """`frame["label"] = ...`; a store that may be skipped leaves open what the column holds."""
    if not isinstance(owner, DataFrame):
        return
    match key:
        case Constant(value=str(name), default=None):
            _put(reader, owner, name, _column(name, value))
        case Sequence(items=items, is_complete=True) if all(isinstance(literal(item), str) for item in items):
            for item in items:
                _put(reader, owner, str(literal(item)), Column(""))
        case _:
            owner.forget()


def _put(reader: Reader, frame: DataFrame, name: str, column: Column) -> None:
    is_certain = depth_of(reader) <= frame.depth
    # The column is there or not: the frame may hold more than is known, and nothing is known of this one.
    if not is_certain and name not in frame.columns:
        frame.is_complete = False
        return
    reader.counted(frame.columns)
    frame.put(name, column if is_certain else Column(name))


@stored_item_of(Indexer)
def _store_some(reader: Reader, owner: Value, key: Value, value: Value, location: Location) -> None:
    """`frame.loc[rows, "label"] = ...`: some values of the column are others now."""
    if not isinstance(owner, Indexer):
        return
    match key:
        case Sequence(items=[_, Constant(value=str(name))]) if name in owner.frame.columns:
            owner.frame.put(name, Column(name))
        case _:
            owner.frame.forget()


@stored_attribute_of(DataFrame)
def _store_attribute(reader: Reader, owner: Value, name: str, value: Value, location: Location) -> None:
    """`frame.label = ...`, `frame.columns = [...]`."""
    if not isinstance(owner, DataFrame):
        return
    if name in owner.columns:
        _put(reader, owner, name, _column(name, value))
        return
    # `frame.columns = ["text", "label"]` renames by position, so both the new names and the old order must
    # be certain.
    names = [literal(item) for item in value.items] if isinstance(value, Sequence) and value.is_complete else []
    is_certain = depth_of(reader) <= owner.depth and owner.is_complete and len(names) == len(owner.columns)
    if name != "columns" or not is_certain or not all(isinstance(each, str) for each in names):
        owner.forget()
        return
    given = zip(map(str, names), owner.columns.values(), strict=True)
    owner.columns = {new: column.named(new) for new, column in given}
    owner.sorted_by = None
