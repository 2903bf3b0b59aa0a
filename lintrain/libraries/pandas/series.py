"""Columns taken out of frames: converted, computed with, and handed on as plain values."""

from __future__ import annotations

from dataclasses import replace

from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import (
    attribute_of,
    element_of,
    function,
    method,
    method_of,
    operated,
    stored_attribute_of,
    stored_item_of,
    subscript_of,
)
from lintrain.libraries.datasets.columns import column_of
from lintrain.libraries.pandas.frames import note_label, numbers_of
from lintrain.model.location import Location
from lintrain.pipeline.values.columns import Column, Kind, Positions, Series, TextMethods, computed, in_part
from lintrain.pipeline.values.data import ColumnValues
from lintrain.pipeline.values.model import FoldRows
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Constant,
    Either,
    Function,
    Library,
    LibraryObject,
    Mapping,
    Sequence,
    Slice,
    Value,
    is_missing,
    is_true,
    literal,
)

CONVERTED = {"int": Kind.INTEGER, "uint": Kind.INTEGER, "float": Kind.FLOAT, "str": Kind.TEXT}
"""Kinds by the beginning of a type's name."""


def kind_as(given: Value) -> Kind:
    """What values are that were converted to a type: `int`, `"float32"`, `np.int64`."""
    name = given.name if isinstance(given, Library) else literal(given)
    if not isinstance(name, str):
        return Kind.UNKNOWN
    return next((kind for beginning, kind in CONVERTED.items() if name.startswith(beginning)), Kind.UNKNOWN)


def _values(series: Series, location: Location, axes: int = 1) -> Value:
    """The plain values, where something is known of them; of a row an array."""
    if series.is_row:
        return numbers_of("", location, axes)
    return ColumnValues(series.column, UNKNOWN, axes=axes, origin=location)


@attribute_of(Series)
def _attribute(reader: Reader, value: Value, name: str, location: Location) -> Value | None:
    if not isinstance(value, Series):
        return None
    match name:
        case "str":
            return TextMethods(value)
        case "iloc" | "iat" if not value.is_row:
            return Positions(value, origin=location)
        case "loc" | "iloc" | "at" | "iat":
            return value
        case "values" | "array":
            return _values(value, location)
        case _ if value.is_row and value.frame is not None and method_of(value, name) is None:
            return ColumnValues(value.frame.columns.get(name, Column(name)), axes=0, origin=location)
        case _:
            return None


@subscript_of(Series)
def _some(reader: Reader, value: Value, key: Value, location: Location) -> Value:
    """`series[0]`, `series[:100]`, `series[mask]`."""
    if not isinstance(value, Series):
        return UNKNOWN
    if value.is_row and isinstance(key, Slice | Sequence):
        return value
    if value.is_row:
        name = literal(key)
        held = value.frame.columns if value.frame is not None else {}
        return UNKNOWN if not isinstance(name, str) else _entry(held.get(name, Column(name)), location, name in held)
    if isinstance(key, FoldRows):
        return Series(in_part(value.column), value.frame, gaps=key.origin, origin=location)
    if isinstance(key, Slice | Series):
        return Series(in_part(value.column), value.frame, gaps=value.gaps, origin=location)
    note_label(reader, value, key, location)
    return _values(value, location, axes=0)


@subscript_of(Positions)
def _at_position(reader: Reader, value: Value, key: Value, location: Location) -> Value:
    """`series.iloc[0]`, `series.iloc[:100]`."""
    if not isinstance(value, Positions):
        return UNKNOWN
    series = value.series
    if isinstance(key, FoldRows):
        return Series(in_part(series.column), series.frame, gaps=key.origin, origin=location)
    if isinstance(key, Slice | Series):
        return Series(in_part(series.column), series.frame, gaps=series.gaps, origin=location)
    return _values(series, location, axes=0)


@stored_item_of(Positions)
def _store_at_position(reader: Reader, owner: Value, key: Value, value: Value, location: Location) -> None:
    if isinstance(owner, Positions):
        _forget(owner.series)


def _entry(column: Column, location: Location, is_assigned: bool = False) -> ColumnValues:
    """One value of a column: a number or a text in a file, but it may be a list where the script made the column."""
    return ColumnValues(column, axes=None if is_assigned and column.kind is Kind.UNKNOWN else 0, origin=location)


@element_of(Series)
def _each(reader: Reader, value: Value) -> Value:
    is_known = isinstance(value, Series) and (value.column.kind is not Kind.UNKNOWN or value.frame is not None)
    is_value = isinstance(value, Series) and is_known and not value.is_row
    return ColumnValues(value.column, axes=0) if is_value and isinstance(value, Series) else UNKNOWN


@stored_item_of(Series)
def _store(reader: Reader, owner: Value, key: Value, value: Value, location: Location) -> None:
    """`frame["label"][0] = ...` may change the frame."""
    if isinstance(owner, Series):
        _forget(owner)


@stored_attribute_of(Series)
def _store_attribute(reader: Reader, owner: Value, name: str, value: Value, location: Location) -> None:
    """`series.index = range(len(series))`."""
    if isinstance(owner, Series):
        owner.gaps = None


def _forget(series: Series) -> None:
    name = series.column.name
    if series.frame is not None and name in series.frame.columns:
        series.frame.put(name, Column(name))
    series.column = Column(name)


def _given(call: Call, made: Value) -> Value:
    """What a method gives; with `inplace=` it changes the values where they are."""
    in_place = call.value("inplace")
    if is_missing(in_place) or literal(in_place) is False:
        return made
    # With an unknown `inplace=` the values may have changed too, so they are forgotten in any case.
    if isinstance(call.receiver, Series):
        _forget(call.receiver)
        call.receiver.gaps = None
    return Constant(None)


@method(Series, "copy", "sample", "head", "tail", "sort_values", "sort_index", "dropna", "drop_duplicates", "squeeze")
@method(Series, "reset_index")
def _same(call: Call) -> Value:
    series = call.receiver
    is_frame = call.path.endswith("reset_index") and not is_true(call.value("drop"))
    if not isinstance(series, Series) or is_frame:
        return _given(call, UNKNOWN)
    is_renumbered = call.path.endswith("reset_index") or not is_missing(call.value("ignore_index"))
    gaps = None if is_renumbered else series.gaps
    return _given(call, Series(in_part(series.column), gaps=gaps, origin=call.location))


@method(Series, "astype")
def _as_type(call: Call) -> Value:
    series = call.receiver
    if not isinstance(series, Series):
        return UNKNOWN
    kind = kind_as(call.value("dtype", 0))
    # The same kind keeps all that is known (class names, what was written). Another kind starts without it.
    kept = series.column if kind is series.column.kind else Column(series.column.name, kind)
    return Series(kept, gaps=series.gaps, origin=call.location)


@method(Series, "fillna")
def _filled(call: Call) -> Value:
    """Text stays text where text is put into its gaps."""
    series, filling = call.receiver, literal(call.value("value", 0))
    # `fillna("")` keeps text. `fillna(0)` on text makes a column of both.
    is_text = isinstance(series, Series) and series.column.kind is Kind.TEXT and isinstance(filling, str)
    return _given(call, series if is_text else computed())


@method(Series, "map", "apply")
def _mapped(call: Call) -> Value:
    """Labels by a dictionary or a function of the script: `frame["label"].map({"bad": 0, "good": 1})`."""
    table, series = call.value("arg" if call.path.endswith("map") else "func", 0), call.receiver
    if not isinstance(series, Series):
        return computed()
    held = _results_of(call, table, series) if isinstance(table, Function) else _values_in(table)
    if held is None:
        return _given(call, computed())
    column = column_of(series.column.name, Sequence(held), is_batch=True)
    return Series(column, gaps=series.gaps, origin=call.location)


def _values_in(table: Value) -> list[Value] | None:
    """The values of a dictionary, if all of them are known."""
    is_known = isinstance(table, Mapping) and table.is_complete
    return [*table.entries.values()] or None if isinstance(table, Mapping) and is_known else None


def _results_of(call: Call, function: Function, series: Series) -> list[Value] | None:
    """The literals that a function returns for some value of a column; None if it may return anything else."""
    # With `args` the function is given something else.
    is_plain = len(call.positional) + len(call.keywords) == 1
    return literals_returned(call, function, _each(call.reader, series)) if is_plain else None


def literals_returned(call: Call, function: Value, given: Value) -> list[Value] | None:
    """The literals that a function of the script returns for a value; None if it may return anything else."""
    if not isinstance(function, Function):
        return None
    result = dispatch.call(call.reader, function, [given], location=call.location)
    results = [*result.options] if isinstance(result, Either) else [result]
    return results if all(isinstance(each, Constant) for each in results) else None


@method(Series, "replace", "where", "mask", "isin", "isna", "notna", "isnull", "notnull", "between")
@method(
    Series, "duplicated", "eq", "ne", "gt", "lt", "ge", "le", "clip", "round", "transform", "combine_first", "update"
)
@method(Series, "rank", "shift", "cumsum", "diff", "add", "sub", "mul", "div", "infer_objects", "to_numeric")
def _computed(call: Call) -> Value:
    """Other values, of which nothing is known; `update` changes them where they are."""
    if call.path.endswith("update") and isinstance(call.receiver, Series):
        _forget(call.receiver)
    return _given(call, computed())


@method(Series, "tolist", "to_list", "to_numpy", "ravel")
def _plain(call: Call) -> Value:
    return _values(call.receiver, call.location) if isinstance(call.receiver, Series) else UNKNOWN


@method(Series, "factorize")
def _factorize(call: Call) -> Value:
    return Sequence([computed(Kind.INTEGER), UNKNOWN], "tuple", origin=call.location)


@function("pandas.factorize")
def _factorize_any(call: Call) -> Value:
    """The numbers of the classes, and the classes."""
    if isinstance(call.value("values", 0), Series):
        return _factorize(call)
    return LibraryObject(call.path, call.values(), origin=call.location)


@operated(Series)
def _operate(reader: Reader, left: Value, operator: str, right: Value, location: Location) -> Value | None:
    """Text and text is text; everything else, and every comparison, gives values that are not known."""
    is_text = all(_is_text(side) for side in (left, right)) and operator == "Add"
    return computed(Kind.TEXT if is_text else Kind.UNKNOWN)


def _is_text(value: Value) -> bool:
    if isinstance(value, Series):
        return value.column.kind is Kind.TEXT
    return isinstance(literal(value), str)


@method(TextMethods, "lower", "upper", "strip", "lstrip", "rstrip", "replace", "title", "capitalize", "slice", "pad")
@method(TextMethods, "casefold", "zfill", "removeprefix", "removesuffix", "normalize", "swapcase", "wrap")
def _text(call: Call) -> Value:
    """Text that was changed is text."""
    methods = call.receiver
    if not isinstance(methods, TextMethods) or methods.series.column.kind is not Kind.TEXT:
        return computed()
    return Series(replace(Column(methods.series.column.name), kind=Kind.TEXT), origin=call.location)


@method(TextMethods, "contains", "len", "startswith", "endswith", "match", "fullmatch", "split", "count", "isnumeric")
def _of_text(call: Call) -> Value:
    return computed()


@subscript_of(TextMethods)
def _cut(reader: Reader, value: Value, key: Value, location: Location) -> Value:
    """`series.str[:100]`."""
    is_text = isinstance(value, TextMethods) and value.series.column.kind is Kind.TEXT and isinstance(key, Slice)
    return computed(Kind.TEXT if is_text else Kind.UNKNOWN)
