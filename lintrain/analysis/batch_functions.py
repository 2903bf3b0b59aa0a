"""Functions that a data set maps over batches, and what in them works for one row only."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from lintrain.model.location import Location
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

MADE_FOR_TEXT = frozenset({"endswith", "lower", "lstrip", "rstrip", "split", "startswith", "strip", "title", "upper"})
"""Methods that a text has, and neither a list nor an array."""

ASKS_FIRST = frozenset({"isinstance", "type", "hasattr", "callable"})

TOKENIZER = lazy_pattern(r"Tokenizer\w*\.from_pretrained$")

Mapped: TypeAlias = ast.FunctionDef | ast.Lambda


@dataclass(frozen=True, slots=True)
class SingleRowUse:
    """Where a function for batches certainly fails, and why."""

    location: Location
    message: str


def uses_of_single_rows(source: Source) -> Iterator[tuple[Location, SingleRowUse]]:
    """For each call of `map` with `batched=True`, the first use in its function that fails for a batch."""
    seen = set[ast.AST]()
    for call in source.nodes_of(ast.Call):
        function = _mapped(source, call)
        if function is None or function in seen or _asks_first(function):
            continue
        seen.add(function)
        name = _row_name(function)
        found = next(_failing(source, function, name), None) if name else None
        if found is not None:
            yield source.location(call.func), SingleRowUse(source.location(found[0]), found[1])


def _mapped(source: Source, call: ast.Call) -> Mapped | None:
    """The function of the file that a call maps over batches, if it gets whole batches and no other has its name."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "map":
        return None
    keywords = {each.arg: each.value for each in call.keywords}
    batched = keywords.get("batched")
    is_batched = isinstance(batched, ast.Constant) and batched.value is True
    return function_given(source, call) if is_batched and "input_columns" not in keywords else None


def function_given(source: Source, call: ast.Call) -> Mapped | None:
    """The function of the file that a method such as `map` is given, if no other there has its name."""
    keywords = {each.arg: each.value for each in call.keywords}
    given = call.args[0] if call.args else keywords.get("function")
    if isinstance(given, ast.Lambda):
        return given
    name = given.id if isinstance(given, ast.Name) else given.attr if isinstance(given, ast.Attribute) else None
    named = source.cached(_functions_by_name).get(name, ()) if name else ()
    if len(named) > 1:
        named = _nearest(source, call, named)
    is_bound = name in source.cached(_stored_names)
    return named[0] if len(named) == 1 and not is_bound and not named[0].decorator_list else None


def _nearest(source: Source, call: ast.Call, named: Sequence[ast.FunctionDef]) -> list[ast.FunctionDef]:
    """Of functions with one name, those that are defined in the function that the call is in."""
    at = source.location(call)
    around = [each for each in source.nodes_of(ast.FunctionDef) if source.location(each).holds(at)]
    return [each for each in named if around and each in around[-1].body]


def lost_columns(source: Source) -> Iterator[tuple[Location, ast.FunctionDef]]:
    """The calls of `map` whose result is kept, and whose function ends by setting a column and returns nothing."""
    kept = [node.value for node in source.nodes_of(ast.Assign) if isinstance(node.value, ast.Call)]
    for call in kept:
        is_map = isinstance(call.func, ast.Attribute) and call.func.attr == "map"
        function = function_given(source, call) if is_map else None
        if isinstance(function, ast.FunctionDef) and _sets_last(function) and not _returns(function):
            yield source.location(call.func), function


def _sets_last(function: ast.FunctionDef) -> bool:
    """Whether the last statement of a function sets an entry by its name: `row["label"] = …`."""
    match function.body[-1]:
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(), slice=ast.Constant(value=str()))]):
            return True
        case _:
            return False


def _returns(function: ast.FunctionDef) -> bool:
    return any(isinstance(node, ast.Return | ast.Yield | ast.YieldFrom) for node in walk(function))


def returns_rows(function: ast.FunctionDef) -> bool:
    """Whether a function certainly returns something other than the row that it got, or changes that row."""
    names = {each.arg for each in function.args.args}
    returned = [node.value for node in walk(function) if isinstance(node, ast.Return)]
    changed = {
        node.value.id
        for node in walk(function)
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name)
    }
    unchanged = names - changed
    return bool(returned) and not any(
        value is None or (isinstance(value, ast.Name) and value.id in unchanged) for value in returned
    )


def _functions_by_name(source: Source) -> dict[str, list[ast.FunctionDef]]:
    found: dict[str, list[ast.FunctionDef]] = {}
    for each in source.nodes_of(ast.FunctionDef):
        found.setdefault(each.name, []).append(each)
    return found


def _stored_names(source: Source) -> Counter[str]:
    """How often each name is bound in a file."""
    return Counter(node.id for node in source.nodes_of(ast.Name) if isinstance(node.ctx, ast.Store))


def _asks_first(function: Mapped) -> bool:
    """Whether a function looks at what it got, catches errors, or has others inside it."""
    for node in walk(function):
        if node is not function and isinstance(node, ast.Try | ast.Yield | ast.FunctionDef):
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ASKS_FIRST:
            return True
    return False


def _row_name(function: Mapped) -> str | None:
    """The name of the batch in a function that binds it nowhere else."""
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    names = names[1:] if names[:1] in (["self"], ["cls"]) else names
    bound = {node.id for node in walk(function) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    inner = {each.arg for node in walk(function) if isinstance(node, ast.Lambda) for each in node.args.args}
    is_own = bool(names) and names[0] not in bound and (isinstance(function, ast.Lambda) or names[0] not in inner)
    return names[0] if is_own else None


def _failing(source: Source, function: Mapped, name: str) -> Iterator[tuple[ast.expr, str]]:
    tables, tokenizers = source.cached(_tables), source.cached(_tokenizers)
    for node in walk(function):
        column, what = _operation(node, name, tables)
        if column is None:
            column, what = _encoded(node, name, tokenizers), "and `encode` takes one text"
        if column is not None and isinstance(node, ast.expr):
            yield node, f"`{_shown(column)}` is a list in a batch, {what}"
    for value in _columns_set(function, name):
        if _is_single(value, function):
            yield value, "one value is given for all rows of a batch, and not a list with one for each"


def _operation(node: ast.AST, name: str, tables: frozenset[str]) -> tuple[ast.Subscript | None, str]:
    """The column that an operation for one value is applied to, and which operation."""
    match node:
        case ast.Call(func=ast.Attribute(value=value, attr=method)) if method in MADE_FOR_TEXT:
            return _column(value, name), f"which has no method `{method}`"
        case ast.Call(func=ast.Name(id="int" | "float" as kind), args=[value], keywords=[]):
            return _column(value, name), f"which `{kind}` cannot convert"
        case ast.BinOp(left=left, op=ast.Add(), right=right) if _is_text(left) or _is_text(right):
            return _column(right, name) or _column(left, name), "which cannot be added to a text"
        case ast.Compare(left=left, ops=[ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE()], comparators=[right]):
            number = isinstance(right, ast.Constant) and isinstance(right.value, int | float)
            return _column(left, name) if number else None, "which cannot be compared with a number"
        case ast.Subscript(value=ast.Name(id=table), slice=key) if table in tables:
            return _column(key, name), f"which is no key of `{table}`"
        case _:
            return None, ""


def _encoded(node: ast.AST, name: str, tokenizers: frozenset[str]) -> ast.Subscript | None:
    """The column that a tokenizer's `encode` gets, which takes it for the words of one text."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr="encode"), args=[first, *_]):
            return _column(first, name) if owner in tokenizers else None
        case _:
            return None


def _tokenizers(source: Source) -> frozenset[str]:
    """The names of tokenizers: those that say so, and those that one is loaded into."""
    names = {node.id for node in source.nodes_of(ast.Name) if node.id.endswith("tokenizer")}
    for node in source.nodes_of(ast.Assign):
        if isinstance(node.value, ast.Call) and TOKENIZER.search(unparse(node.value.func)):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
    return frozenset(names)


def _column(node: ast.AST, name: str) -> ast.Subscript | None:
    """A column that is read from the batch: `name["text"]`."""
    match node:
        case ast.Subscript(value=ast.Name(id=owner), slice=ast.Constant(value=str())) if owner == name:
            return node
        case _:
            return None


def _is_text(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=str()) | ast.JoinedStr():
            return True
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _is_text(left) or _is_text(right)
        case _:
            return False


def _tables(source: Source) -> frozenset[str]:
    """The names that are bound once in a file, to a dictionary that is written down."""
    stored = source.cached(_stored_names)
    written = {
        target.id
        for node in source.nodes_of(ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and isinstance(node.value, ast.Dict | ast.DictComp)
    }
    return frozenset(each for each in written if stored[each] == 1)


def _columns_set(function: Mapped, name: str) -> Iterator[ast.expr]:
    """The values that a function gives for columns: in the dictionary that it returns, or set on the batch."""
    if isinstance(function, ast.Lambda):
        yield from function.body.values if isinstance(function.body, ast.Dict) else ()
        return
    for node in walk(function):
        match node:
            case ast.Return(value=ast.Dict(values=values)):
                yield from values
            case ast.Assign(targets=[target], value=value) if _column(target, name) is not None:
                yield value
            case _:
                pass


def _is_single(value: ast.expr, function: Mapped) -> bool:
    """Whether a value is one text: written as an f-string, or a name that is bound once to one."""
    if isinstance(value, ast.JoinedStr):
        return True
    if not isinstance(value, ast.Name):
        return False
    bound = [node for node in walk(function) if isinstance(node, ast.Name) and node.id == value.id]
    is_once = sum(isinstance(node.ctx, ast.Store) for node in bound) == 1
    return is_once and any(
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.JoinedStr)
        and any(isinstance(target, ast.Name) and target.id == value.id for target in node.targets)
        for node in walk(function)
    )


def _shown(column: ast.Subscript) -> str:
    return unparse(column)
