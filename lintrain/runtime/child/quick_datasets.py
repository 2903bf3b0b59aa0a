"""Keep large datasets cheap: `Dataset.map` works on some rows, and its result is repeated to the full length.

Every row keeps its label: a row of the result comes from a worked row of the same label, so class counts, stratified
splits and label ranges stay exact, and a row's columns belong together. Where that is not enough (a function with side
effects, row numbers, columns added from outside, a walk over all rows) the work is done in full.

Does a function given to `Dataset.map` do more than turn rows into rows? Read from its source, never run.
"""

from __future__ import annotations

import ast
import functools
import inspect
import os
import textwrap
import uuid
from collections.abc import Callable, Iterator
from types import FunctionType, MethodType
from typing import Any

from lintrain.runtime.child.frames import is_users
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.label_rows import Sampling, is_label, sample_by_label
from lintrain.runtime.child.library import attribute, has, library
from lintrain.runtime.child.probe_session import ProbeSession
from lintrain.startup.folders import PACKAGE

FEWEST_ROWS = 2_000
"""Shorter data sets are processed in full, which takes no time."""
WHOLE_WALKS = ("__iter__", "iter", "to_pandas", "to_polars", "to_dict", "to_list", "to_csv", "to_json", "unique")
ROW_BOUND = ("with_indices", "with_rank")


def install(session: ProbeSession, hooks: AfterImport) -> None:
    """Patch `datasets` as soon as the script imports it; nothing if all data is wanted."""
    if session.sample_rows:
        hooks.add("datasets.arrow_dataset", lambda module: QuickMap(session, module.Dataset).install())


class QuickMap:
    """`Dataset.map` on a sample; `sampled` says whether any result of this process is a repeated sample."""

    def __init__(self, session: ProbeSession, dataset_class: Any) -> None:
        self._session = session
        self._class = dataset_class
        self._map = dataset_class.map
        self._signature = inspect.signature(dataset_class.map)
        self.sampled = False

    def install(self) -> None:
        """Put the quick `map` and the guards of what it cannot answer in place."""
        quick = self

        @functools.wraps(self._map)
        def map_rows(dataset: Any, *args: Any, **kwargs: Any) -> Any:
            return quick.map(dataset, _caller(), args, kwargs)

        self._class.map = map_rows
        for name in WHOLE_WALKS:
            # `to_polars` and `to_list` are younger than other methods; an older `datasets` has fewer of them.
            if has(self._class, name):
                setattr(self._class, name, self._guarded(getattr(self._class, name), name, _always))
        self._class.add_column = self._guarded(self._class.add_column, "add_column", _always)
        self._class.__getitem__ = self._guarded(self._class.__getitem__, "[column]", _takes_column)

    def map(self, dataset: Any, caller: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The mapped dataset: in full if the data set is short or the work depends on more than single rows."""
        call = self._bound(dataset, args, kwargs)
        # `datasets` maps within its own methods (`filter`, `cast_column`) and with assumptions about the result's
        # rows.
        if call is None or len(dataset) < FEWEST_ROWS or os.path.basename(caller) == "arrow_dataset.py":
            return self._map(dataset, *args, **kwargs)
        reason = _unsound(call)
        if reason is not None:
            self._session.note(f"`map` processed all {len(dataset)} rows: {reason}")
            return self._map(dataset, *args, **kwargs)
        # None means that all labels do not fit into a sample, and a sample without some would change the label range.
        sampling = sample_by_label(dataset, self._session.sample_rows)
        return self._map(dataset, *args, **kwargs) if sampling is None else self._repeated(dataset, sampling, call)

    def _bound(self, dataset: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
        try:
            return dict(self._signature.bind(dataset, *args, **kwargs).arguments)
        except TypeError:
            return None  # the library says what is wrong with the call

    def _repeated(self, dataset: Any, sampling: Sampling, call: dict[str, Any]) -> Any:
        numpy = library("numpy")
        # No file of the result: the cache of `datasets` must not hold a shortened one under the fingerprint of the
        # whole.
        quick = {"num_proc": None, "keep_in_memory": True, "load_from_cache_file": False, "cache_file_name": None}
        given = {name: value for name, value in call.items() if name not in ("self", *quick)}
        small = self._map(
            dataset.select(sampling.rows, keep_in_memory=True), **given, **quick, new_fingerprint=uuid.uuid4().hex
        )
        rows, worked = len(dataset), len(sampling.rows)
        # From here on rows repeat. What would notice (a walk over all rows, a whole column) restarts the pass on all
        # data.
        self.sampled = True
        self._session.shorten(
            f"`map` processed {worked} of {rows} rows, with every label among them (`--full-data` processes all)"
        )
        # One row for each: rows stand in for those of their label. A function that splits or drops rows keeps only
        # their proportion.
        if len(small) == worked:
            return small.select(sampling.stand_ins, keep_in_memory=True)
        if len(small) == 0:
            return small
        # A function that splits texts into windows turns 258 rows into 900: 100,000 rows then become 348,837, so that
        # `len()` and planned steps stay about right.
        return small.select(numpy.resize(numpy.arange(len(small)), max(1, rows * len(small) // worked)))

    def _guarded(self, original: Callable[..., Any], name: str, asks_too_much: Callable[..., bool]) -> Any:
        @functools.wraps(original)
        def guarded(dataset: Any, *args: Any, **kwargs: Any) -> Any:
            asks = self.sampled and is_repeated(dataset) and asks_too_much(dataset, *args, **kwargs)
            # Libraries walk over whole columns too, but only to collect or write them; it is the script that may
            # decide by them.
            if asks and is_users(_caller()):
                self._session.restart(f"the script uses `{name}` on mapped data")
            return original(dataset, *args, **kwargs)

        return guarded


def _caller() -> str:
    """The file of the code that called a patched method, which other parts of a probe may have patched too."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    return frame.f_code.co_filename if frame else ""


def is_repeated(dataset: Any) -> bool:
    """Whether a dataset has more rows than its table: the mark of a repeated sample."""
    return dataset._indices is not None and len(dataset._indices) > len(dataset._data)


def _always(*_: Any, **__: Any) -> bool:
    return True


def _takes_column(dataset: Any, key: Any = None) -> bool:
    """A whole column of anything but labels, which are exact, or all rows at once."""
    if isinstance(key, slice):
        return len(range(*key.indices(len(dataset)))) == len(dataset)
    return isinstance(key, str) and not is_label(dataset, key)


def _unsound(call: dict[str, Any]) -> str | None:
    """Why a call of `map` cannot be answered from some rows, or None."""
    for name in ROW_BOUND:
        if call.get(name):
            return f"its function receives row indices (`{name}`)"
    function = call.get("function")
    found = side_effect(function) if function is not None else None
    name = attribute(function, "__name__", type(function).__name__)
    return f"`{name}` {found}" if found else None


CHANGING = frozenset(
    {
        "add",
        "append",
        "appendleft",
        "clear",
        "discard",
        "extend",
        "insert",
        "pop",
        "popitem",
        "remove",
        "setdefault",
        "update",
        "write",
        "writelines",
    }
)
DEEPEST = 3


def side_effect(function: Any, depth: int = 0) -> str | None:
    """What a function changes outside of itself, as text after its name; None if it changes nothing."""
    # A `partial` of a `partial` is one function for Python, two objects here.
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, MethodType):
        function = function.__func__
    if not isinstance(function, FunctionType):
        # A built-in or an object that can be called: only the class of an object of the user's own has text to read.
        return _of_object(function, depth)
    if not is_users(function.__code__.co_filename):
        return None
    tree = _tree(function)
    if tree is None:
        return "has no readable source"
    return _of_tree(tree, function, depth)


def _of_object(called: object, depth: int) -> str | None:
    """Library objects (a tokenizer) only turn rows into rows; an object of the user's own class is read."""
    method = attribute(type(called), "__call__", None)
    return side_effect(method, depth) if isinstance(method, FunctionType) else None


def _tree(function: FunctionType) -> ast.AST | None:
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        return None
    # The source of a lambda is the whole statement that contains it, often a part of a call over several lines.
    # Tried in this order: the statement as it is, as one argument in parentheses (`lambda x:
    # x,`), and the lambda alone.
    for text in (source, f"({source.strip().rstrip(',')})", _lambda_part(source)):
        try:
            parsed = ast.parse(text)
        except SyntaxError:
            continue
        return _own_node(parsed, function)
    return None


def _lambda_part(source: str) -> str:
    """The text from `lambda` on, cut back until it parses."""
    text = source[source.find("lambda") :] if "lambda" in source else ""
    for end in range(len(text), 0, -1):
        try:
            ast.parse(text[:end], mode="eval")
        except SyntaxError:
            continue
        return text[:end]
    return "("


def _own_node(parsed: ast.Module, function: FunctionType) -> ast.AST:
    kinds = (ast.Lambda,) if function.__name__ == "<lambda>" else (ast.FunctionDef, ast.AsyncFunctionDef)
    return next((node for node in ast.walk(parsed) if isinstance(node, kinds)), parsed)


def _of_tree(tree: ast.AST, function: FunctionType, depth: int) -> str | None:
    # Cell variables too: a local that an inner function uses is in `co_cellvars` and, if it is no
    # argument, not in `co_varnames`.
    own = set(function.__code__.co_varnames) | set(function.__code__.co_cellvars)
    own.discard("self")  # an attribute of the object outlives the call
    for node in ast.walk(tree):
        changed = _changed_name(node)
        # Changing a local name is what a function is for; what it did not make itself outlives the call.
        if changed is not None and changed not in own:
            return f"changes `{changed}`"
    # A bound, because functions may call each other; what changes a name four calls further down is seen
    # only by the full data.
    if depth < DEEPEST:
        for called in _called(tree, function):
            found = side_effect(called, depth + 1)
            if found:
                return f"calls `{called.__name__}`, which {found}"
    return None


def _changed_name(node: ast.AST) -> str | None:
    """The name of the object that a statement changes in place, or that it binds outside of the function."""
    match node:
        case ast.Global() | ast.Nonlocal():
            return node.names[0]
        case ast.Subscript(ctx=ast.Store() | ast.Del()) | ast.Attribute(ctx=ast.Store() | ast.Del()):
            return _root(node)
        case ast.Call(func=ast.Attribute(attr=attribute, value=value)) if attribute in CHANGING:
            return _root(value)
        case ast.Call(func=ast.Name(id="open")):
            return "a file"
        # `next(counter)` advances an iterator that the function did not create: each row then depends
        # on the rows before it.
        case ast.Call(func=ast.Name(id="next")) if node.args:
            return _root(node.args[0])
        case _:
            return None


def _root(node: ast.AST) -> str | None:
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _called(tree: ast.AST, function: FunctionType) -> Iterator[FunctionType]:
    closure = inspect.getclosurevars(function)
    known = {**closure.globals, **closure.nonlocals}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called = known.get(node.func.id)
            if isinstance(called, FunctionType):
                yield called
