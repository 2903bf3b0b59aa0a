"""Results of `map` and its like that a statement drops, of data sets that the interpreter does not know."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis.batch_functions import function_given, returns_rows
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

OF_DATASETS = frozenset({"cast_column", "class_encode_column", "remove_columns", "rename_column"})
"""Methods that nothing but a data set has."""

TAKE_A_FUNCTION = frozenset({"filter", "map"})

KEYWORDS = frozenset(
    {"batched", "fn_kwargs", "load_from_cache_file", "num_parallel_calls", "num_proc", "remove_columns", "with_indices"}
)
"""Arguments that only `map` and `filter` of data sets have."""


@dataclass(frozen=True, slots=True)
class DroppedResult:
    """A statement that calls a method of a data set: the call, what it is called on, and the method."""

    call: ast.Call
    owner: str
    method: str


def dropped_results(source: Source) -> Iterator[DroppedResult]:
    """The statements of a file that drop the data set that a method returns, by the method or its arguments."""
    imports = "datasets" in source.text or "tf.data" in source.text
    for node in source.nodes_of(ast.Expr) if imports else ():
        match node.value:
            case ast.Call(func=ast.Attribute(value=owner, attr=method)) as call:
                is_named = method in OF_DATASETS and bool(call.args or call.keywords)
                if (is_named and not _defines(source, method)) or _is_mapped(source, call, method):
                    yield DroppedResult(call, unparse(owner), method)
            case _:
                pass


def _defines(source: Source, name: str) -> bool:
    return any(each.name == name for each in source.nodes_of(ast.FunctionDef))


def _is_mapped(source: Source, call: ast.Call, method: str) -> bool:
    """Whether a call maps a function that returns rows over a data set, and writes no file for them."""
    names = {each.arg for each in call.keywords}
    if method not in TAKE_A_FUNCTION or len(call.args) != 1 or names & {"cache_file_name", "cache_file_names", None}:
        return False
    if not names & KEYWORDS and (not _is_kept_elsewhere(source, call, method) or _may_be_other(source, call)):
        return False
    function = function_given(source, call)
    return isinstance(function, ast.FunctionDef) and returns_rows(function)


def _may_be_other(source: Source, call: ast.Call) -> bool:
    """Whether what a method is called on is a parameter, one of several things, or a metric of `evaluate`."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if not isinstance(owner, ast.Name):
        return False
    functions = [each for each in source.nodes_of(ast.FunctionDef) if any(node is call for node in walk(each))]
    if any(isinstance(node, ast.arg) and node.arg == owner.id for each in functions for node in walk(each.args)):
        return True
    made = (node.value for node in source.nodes_of(ast.Assign) if owner.id in map(unparse, node.targets))
    return any(isinstance(value, ast.IfExp | ast.BoolOp) or unparse(value).startswith("evaluate.") for value in made)


def _is_kept_elsewhere(source: Source, call: ast.Call, method: str) -> bool:
    """Whether the file keeps what the same method returns for the same function."""
    kept = (node.value for node in source.nodes_of(ast.Assign) if isinstance(node.value, ast.Call))
    return any(
        isinstance(each.func, ast.Attribute)
        and each.func.attr == method
        and [unparse(given) for given in each.args] == [unparse(given) for given in call.args]
        for each in kept
    )
