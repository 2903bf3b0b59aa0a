"""How code names rows, cuts and measures them: slices, windows, and means of targets that features are made of."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TypeGuard

from lintrain.analysis.training_loops import words_of
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source


def means_of(source: Source, value: ast.expr) -> tuple[str, str] | None:
    """The frame and the column of targets of `df.groupby("city")["price"].transform("mean")`; None for other code."""
    match value:
        case ast.Call(
            func=ast.Attribute(
                value=ast.Subscript(
                    value=ast.Call(func=ast.Attribute(value=ast.Name(id=frame), attr="groupby")),
                    slice=ast.Constant(value=str() as column),
                ),
                attr="transform" | "mean" | "median" | "sum" | "agg",
            )
        ) if column in source.cached(_label_columns):
            return frame, column
        case _:
            return None


def _label_columns(source: Source) -> frozenset[str]:
    """The columns that a script takes for targets: `y = df["price"]`, `df.pop("price")`, `fit(x, df["price"])`."""
    found = set[str]()
    for node in source.nodes_of(ast.Assign):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if words_of(name) & TARGET_WORDS:
                found |= _columns_in(value)
            case _:
                pass
    for call in source.nodes_of(ast.Call):
        match call:
            case ast.Call(func=ast.Attribute(attr="pop"), args=[ast.Constant(value=str() as column)]):
                found.add(column)
            case ast.Call(func=ast.Attribute(attr="fit") | ast.Name(id="train_test_split"), args=[_, labels, *_]):
                found |= _columns_in(labels)
            case _:
                pass
    return frozenset(found)


TARGET_WORDS = frozenset({"y", "target", "targets", "label", "labels"})


def _columns_in(value: ast.expr) -> set[str]:
    """The column that `df["price"]`, `df.price` and `df["price"].values` take out of a frame."""
    while isinstance(value, ast.Call | ast.Attribute):
        if isinstance(value, ast.Attribute) and value.attr not in {"values", "astype", "to_numpy", "copy"}:
            return {value.attr} if isinstance(value.value, ast.Name) else set()
        value = value.func if isinstance(value, ast.Call) else value.value
    match value:
        case ast.Subscript(value=ast.Name(), slice=ast.Constant(value=str() as column)):
            return {column}
        case _:
            return set()


def keeps_rows(axes: list[ast.expr]) -> bool:
    """Whether an index with several axes leaves all rows: `scaled[:, 3]` is a column of them."""
    first = axes[:1] if isinstance(axes[0], ast.Slice) else axes
    return not any(map(cuts_rows, first))


def runs_in_order(statement: ast.stmt) -> TypeGuard[ast.If | ast.With | ast.Try]:
    """Whether the block of a statement runs with those around it: `with`, `try`, `if __name__ == "__main__":`."""
    is_main = isinstance(statement, ast.If) and "__name__" in unparse(statement.test)
    return is_main or isinstance(statement, ast.With | ast.Try)


def cuts_rows(axis: ast.expr) -> bool:
    """Whether an index of an axis is anything but the whole axis or a new one."""
    match axis:
        case ast.Slice(lower=None, upper=None) | ast.Constant(value=None) | ast.Attribute(attr="newaxis"):
            return False
        case ast.Constant(value=index):
            return index is not ...
        case _:
            return True


def windowing_functions(source: Source) -> frozenset[str]:
    """The functions and methods of a file that cut their first parameter into windows."""
    found: set[str] = set()
    for function in source.nodes_of(ast.FunctionDef):
        first = next((each.arg for each in function.args.args if each.arg not in {"self", "cls"}), "")
        code = source.code(source.location(function)) if first else ""
        is_cut = re.search(rf"(?:\.append\(|\[){first}(?:\.iloc|\.values)?\[[^\]]*[:+]", code) is not None
        if first and is_cut and isinstance(function.body[-1], ast.Return) and re.search(r"\bfor\b", code):
            found.add(function.name)
    return frozenset(found)


def begins(bounds: ast.Slice) -> bool:
    """Whether a slice takes the first part of something: `[:n]`, `[0:n]`."""
    is_first = bounds.lower is None or (isinstance(bounds.lower, ast.Constant) and bounds.lower.value == 0)
    return is_first and bounds.upper is not None


def cuts(statement: ast.stmt) -> Iterator[tuple[str, ast.Subscript]]:
    """The slices that a statement gives to names: `train, test = rows[:n], rows[n:]`."""
    match statement:
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
            pairs = list(zip(names, values, strict=False))
        case ast.Assign(targets=[name], value=value):
            pairs = [(name, value)]
        case _:
            pairs = []
    for name, value in pairs:
        for node in walk(value):
            if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) and node.slice.step is None:
                yield code_of(name), node


def code_of(node: ast.expr) -> str:
    """The code of a name, an attribute or an entry, by which one thing is known; empty for other code."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name()) | ast.Subscript(value=ast.Name(), slice=ast.Constant()):
            return unparse(node)
        case _:
            return ""


def _is_of_columns(argument: ast.keyword) -> bool:
    """Whether an argument of `drop` means columns: `columns=…` or `axis=1`."""
    return argument.arg == "columns" or (argument.arg == "axis" and unparse(argument.value) in {"1", "'columns'"})


def rows_behind(node: ast.expr, columns: frozenset[str] = frozenset()) -> str:
    """The code of the rows of which an expression has some columns, or another form; empty for other code.

    `columns` are the names that the script gives lists of columns: with them `df[scaled]` has all rows of `df`.
    """
    match node:
        case ast.Subscript(value=ast.Attribute(value=rows, attr="iloc" | "loc"), slice=ast.Tuple(elts=axes)):
            return rows_behind(rows, columns) if keeps_rows(axes) else ""
        case ast.Subscript(value=rows, slice=ast.Tuple(elts=axes)):
            return rows_behind(rows, columns) if keeps_rows(axes) else ""
        case ast.Subscript(value=rows, slice=ast.List(elts=names)) if all(map(is_text, names)):
            return rows_behind(rows, columns)
        case ast.Subscript(value=rows, slice=ast.Name(id=name)) if name in columns:
            return rows_behind(rows, columns)
        case ast.Attribute(value=rows, attr="values"):
            return rows_behind(rows, columns)
        case ast.Call(func=ast.Attribute(value=rows, attr="drop"), keywords=keywords) if any(
            map(_is_of_columns, keywords)
        ):
            return rows_behind(rows, columns)
        case ast.Call(func=ast.Attribute(value=rows, attr="to_numpy" | "astype" | "copy" | "reshape")):
            return rows_behind(rows, columns)
        case ast.Call(func=ast.Attribute(value=rows, attr="drop"), keywords=given) if _drops_columns(given):
            return rows_behind(rows, columns)
        case _:
            return code_of(node)


def _drops_columns(given: list[ast.keyword]) -> bool:
    """Whether `drop` takes columns away, and no rows: `columns=["y"]`, `axis=1`."""
    return any(
        each.arg == "columns" or (each.arg == "axis" and unparse(each.value) in {"1", "'columns'"}) for each in given
    )


def column_lists(source: Source) -> frozenset[str]:
    """The names of lists of columns: `scaled = ["age", "fare"]`, `numeric = df.select_dtypes("number").columns`."""
    found = set[str]()
    for node in source.nodes_of(ast.Assign):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.List(elts=[_, *_] as items)) if all(
                map(is_text, items)
            ):
                found.add(name)
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if ".columns" in unparse(value):
                found.add(name)
            case _:
                pass
    return frozenset(found)


def frame_written(target: ast.expr, columns: frozenset[str]) -> str:
    """The frame or array of which a statement replaces columns, `df[scaled] = …` or `x[:, 1:] = …`; else empty."""
    match target:
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str())):
            return name
        case ast.Subscript():
            found = rows_behind(target, columns)
            return found if found != code_of(target) else ""
        case _:
            return ""


NUMBERING = frozenset({"list", "range", "arange", "randperm", "permutation", "sample", "tolist", "array", "linspace"})
"""What makes a list of the numbers of rows from how many there are."""


COUNTS = frozenset({"n", "nb", "num", "number", "len", "length", "size", "count"})
"""Words of attributes that hold how many rows an object has: `rows.nb_rows`."""


def rows_numbered(node: ast.expr, counts: dict[str, str]) -> str:
    """The rows whose numbers an expression lists: `list(range(len(rows)))`, `torch.randperm(n)`; empty for other code.

    `counts` are the names of numbers of rows, with the code of the rows.
    """
    match node:
        case ast.Name(id=name):
            return counts.get(name, "")
        case ast.Call(func=ast.Name(id="len"), args=[rows]):
            return code_of(rows)
        case ast.Subscript(value=ast.Attribute(value=rows, attr="shape"), slice=ast.Constant(value=0)):
            return code_of(rows)
        case ast.Attribute(value=rows, attr=name) if words_of(name) & COUNTS:
            return code_of(rows)
        case ast.Call(func=ast.Attribute(value=inner, attr="tolist"), args=[]):
            return rows_numbered(inner, counts)
        case ast.Call(func=called, args=[first, *_]) if unparse(called).rpartition(".")[2] in NUMBERING:
            return rows_numbered(first, counts)
        case _:
            return ""


def is_text(node: ast.expr) -> bool:
    """Whether code is a text as it is written."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def bound_by(targets: list[ast.expr]) -> list[str]:
    """What a statement binds, by its code."""
    parts = [
        part for target in targets for part in (target.elts if isinstance(target, ast.Tuple | ast.List) else [target])
    ]
    return [code for part in parts if (code := code_of(part))]


def is_of_rows(axis: ast.expr) -> bool:
    """Whether an axis is that of the rows, alone or among others."""
    axes = axis.elts if isinstance(axis, ast.Tuple | ast.List) else [axis]
    return any(isinstance(each, ast.Constant) and each.value in {0, None} for each in axes)


def mixed_windows(source: Source) -> Iterator[ast.Call]:
    """The random splits of windows that overlap: `train_test_split(windows, …)` without `shuffle=False`."""
    if not source.contains("train_test_split"):
        return
    windows = set[str]()
    for node in source.nodes_of(ast.Assign):
        if isinstance(node.targets[0], ast.Name) and any(_slides(each) for each in walk(node.value)):
            windows.add(node.targets[0].id)
    for loop in source.nodes_of(ast.For):
        for call in walk(loop):
            match call:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[rows]) if (
                    _steps_by_one(loop.iter) and isinstance(loop.target, ast.Name) and _is_window(rows, loop.target.id)
                ):
                    windows.add(name)
                case _:
                    pass
    for node in source.nodes_of(ast.Assign):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(args=[ast.Name(id=given), *_])) if (
                given in windows and unparse(node.value).startswith(("np.", "numpy.", "torch."))
            ):
                windows.add(name)
            case _:
                pass
    for call in source.nodes_of(ast.Call):
        is_split = unparse(call.func).rpartition(".")[2] == "train_test_split" and call.args
        is_of_windows = is_split and isinstance(call.args[0], ast.Name) and call.args[0].id in windows
        if is_of_windows and not {"shuffle", None, "stratify"} & {each.arg for each in call.keywords}:
            yield call


def _slides(node: ast.AST) -> bool:
    match node:
        case ast.ListComp(elt=rows, generators=[ast.comprehension(target=ast.Name(id=index), iter=over)]):
            return _steps_by_one(over) and _is_window(rows, index)
        case _:
            return False


def _steps_by_one(over: ast.expr) -> bool:
    """Whether a loop goes through each number of a range."""
    return isinstance(over, ast.Call) and unparse(over.func) == "range" and len(over.args) < 3


def _is_window(rows: ast.expr, index: str) -> bool:
    """Whether code is `rows[index : index + size]`, of all columns or one."""
    cut = rows.slice if isinstance(rows, ast.Subscript) else None
    first = cut.elts[0] if isinstance(cut, ast.Tuple) and cut.elts else cut
    if not isinstance(first, ast.Slice) or first.lower is None or first.upper is None:
        return False
    bounds = [{each.id for each in walk(bound) if isinstance(each, ast.Name)} for bound in (first.lower, first.upper)]
    product = any(isinstance(each, ast.Mult) for each in walk(first))
    return index in bounds[0] and index in bounds[1] and not product
