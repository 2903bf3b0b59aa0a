"""What a failing call was given: the values that the user's line names, and the arguments of the library's functions.

Read from the frames of a traceback, as plain facts. No code of the script runs for it: attributes are read from the
dictionaries of objects, and only values of known types are measured.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import linecache
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from types import FrameType, TracebackType
from typing import Any, cast

from lintrain.evidence.stages import GivenValue
from lintrain.runtime.child.library import attribute, has

MOST_VALUES = 24
MOST_OF_A_FUNCTION = 8
LIBRARY_FRAMES = 4
MOST_ELEMENTS = 2_000_000
"""Elements of a tensor whose range is measured: a few milliseconds."""
MOST_NAMES = 40
LONGEST_TEXT = 60
LIBRARIES = frozenset({"accelerate", "builtins", "collections", "datasets", "keras", "torch", "transformers"})
"""Where the classes of containers come from that are read: a script's own class may do anything when it is."""
SCRIPT = "script"
"""The function of values that the user's function holds, but its line does not name."""
Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef


def given_values(users: Sequence[TracebackType], libraries: Sequence[TracebackType]) -> tuple[GivenValue, ...]:
    """The values at the innermost line of the user, then those of the library's functions, the innermost first."""
    found = [*_at_line(users[-1]), *_in_scope(users[-1])] if users else []
    for step in [*reversed(libraries)][:LIBRARY_FRAMES]:
        found += _arguments(step.tb_frame)
    return tuple(found[:MOST_VALUES])


def blocks_around(users: Sequence[TracebackType]) -> tuple[str, ...]:
    """The heads of the blocks that the user's lines are in, outermost first: `with torch.no_grad()`, `@no_grad()`."""
    return tuple(head for step in users[-4:] for head in _heads(_tree(step.tb_frame), step.tb_lineno))


def _at_line(step: TracebackType) -> Iterator[GivenValue]:
    frame, line = step.tb_frame, step.tb_lineno
    tree = _tree(frame)
    statement = _statement(tree, line)
    if tree is None or statement is None:
        return
    seen = set[str]()
    for expression in _expressions(statement):
        name, found = ast.unparse(expression), value_in(expression, frame)
        # Modules and functions name no value of the failing call: `torch.cat([a, b])` is about `a` and `b`.
        if found is None or name in seen or inspect.ismodule(found[0]) or inspect.isroutine(found[0]):
            continue
        seen.add(name)
        if not isinstance(found[0], type):
            yield described(name, found[0], origin=_origin(tree, name, line))


def _in_scope(step: TracebackType) -> Iterator[GivenValue]:
    """Modules that the user's function holds, and tensors that its loop keeps from one iteration to the next."""
    frame = step.tb_frame
    # The case is `hidden = rnn(x, hidden)` without `detach`: its graph is kept from the iteration before.
    kept = set(_kept_names(_tree(frame), step.tb_lineno))
    for name, value in list(frame.f_locals.items()):
        if name in kept and any(attribute(each, "grad_fn", None) is not None for each in _parts(value)):
            yield GivenValue(name, type(value).__name__, "kept", SCRIPT)
        elif _is_module(value):
            yield described(name, value, SCRIPT)


def _parts(value: Any) -> tuple[Any, ...]:
    parts = _sequence(value) or (value,)
    return tuple(part for part in parts if type(part).__module__ == "torch")


def _kept_names(tree: ast.Module | None, line: int) -> Iterator[str]:
    """Names that the innermost loop around a line reads before it assigns them."""
    # Only such a name can carry a graph into the next iteration: what is assigned first is new in each.
    nodes = ast.walk(tree or ast.Module([], []))
    loops = [each for each in nodes if isinstance(each, ast.For | ast.While)]
    loops = [each for each in loops if each.lineno < line <= (each.end_lineno or 0)]
    read = set[str]()
    for statement in loops[-1].body if loops else ():
        names = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
        read |= {node.id for node in names if isinstance(node.ctx, ast.Load)}
        if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
            read.add(statement.target.id)
        yield from (node.id for node in names if isinstance(node.ctx, ast.Store) and node.id in read)


@lru_cache(maxsize=8)
def parsed(path: str) -> ast.Module | None:
    """A file as a tree; None if its text cannot be read."""
    try:
        return ast.parse("".join(linecache.getlines(path)))
    except (SyntaxError, ValueError, RecursionError):
        return None


@lru_cache(maxsize=8)
def nodes_of(path: str) -> tuple[ast.AST, ...]:
    """The nodes of a file's tree, none if its text cannot be read: a step asks for them again and again."""
    return tuple(ast.walk(parsed(path) or ast.Module([], [])))


def _tree(frame: FrameType) -> ast.Module | None:
    return parsed(frame.f_code.co_filename)


def _statement(tree: ast.Module | None, line: int) -> ast.AST | None:
    """The smallest statement at a line; of a compound statement only its head counts."""
    found: ast.stmt | None = None
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno):
            found = node if found is None or node.lineno >= found.lineno else found
    return found


def _heads(tree: ast.Module | None, line: int) -> Iterator[str]:
    for node in ast.walk(tree) if tree else ():
        if not (isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0)):
            continue
        if isinstance(node, ast.With):
            yield f"with {', '.join(ast.unparse(item) for item in node.items)}"
        elif isinstance(node, ast.FunctionDef):
            yield from (f"@{ast.unparse(decorator)}" for decorator in node.decorator_list)


def _expressions(statement: ast.AST) -> Iterator[ast.expr]:
    """Names, attributes and items that a statement reads, in their order; not the body of a compound statement."""
    for field, child in ast.iter_fields(statement):
        if field in ("body", "orelse", "finalbody", "handlers", "decorator_list"):
            continue
        for node in _sequence(child) or [child]:
            if isinstance(node, ast.AST):
                yield from _readable(node)


def _readable(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Load):
        yield node
    for child in ast.iter_child_nodes(node):
        yield from _readable(child)


def value_in(node: ast.expr, frame: FrameType) -> tuple[Any] | None:
    """The value of an expression without running code: a name, an attribute or a constant item; else None."""
    match node:
        case ast.Name(id=name) if name in frame.f_locals:
            return (frame.f_locals[name],)
        case ast.Name(id=name) if name in frame.f_globals:
            return (frame.f_globals[name],)
        case ast.Attribute(value=of, attr=name) if owner := value_in(of, frame):
            return _attribute(owner[0], name)
        case ast.Subscript(value=of, slice=ast.Constant(value=key)) if owner := value_in(of, frame):
            return _item(owner[0], key)
        case _:
            return None


def _attribute(owner: Any, name: str) -> tuple[Any] | None:
    # Looking a name up in a module may import a part of it: `transformers` loads its classes when asked.
    if inspect.ismodule(owner):
        return None
    own: Any = _dictionary(owner)
    for holder in (own, own.get("_modules"), own.get("_parameters"), own.get("_buffers")):
        parts: dict[str, Any] = holder or {}
        if name in parts:
            return (parts[name],)
    return None


def _dictionary(owner: Any) -> dict[str, Any]:
    try:
        # A script's own `__getattr__` may do anything, and the failing pass must not be continued by looking at it.
        found: dict[str, Any] = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        return {}
    return found


def _item(owner: Any, key: Any) -> tuple[Any] | None:
    data, parts = _mapping(owner), _sequence(owner)
    if data is not None and key in data:
        return (data[key],)
    if parts is not None and isinstance(key, int) and -len(parts) <= key < len(parts):
        return (parts[key],)
    return None


def _mapping(value: Any) -> dict[Any, Any] | None:
    """A dictionary, or that of an encoding, which is a `UserDict`; None for anything else."""
    data: Any = value
    if not isinstance(value, dict):
        data = _dictionary(value).get("data")
    if isinstance(data, dict) and _is_of_library(data):
        return data  # pyright: ignore[reportUnknownVariableType] - of anything
    return None


def _sequence(value: Any) -> Sequence[Any] | None:
    """A list or tuple of Python's own; None for anything else."""
    return cast("Sequence[Any]", value) if isinstance(value, list | tuple) and _is_of_library(value) else None


def _is_of_library(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] in LIBRARIES


def _origin(tree: ast.Module, name: str, line: int) -> str:
    """The last statement above a line that assigns the name, as `line: code`; "" if it is a parameter or elsewhere."""
    base = name.partition(".")[0].partition("[")[0]
    above = [
        node
        for node in ast.walk(_scope(tree, line))
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign) and node.lineno < line and _binds(node, base)
    ]
    last = max(above, key=lambda node: node.lineno, default=None)
    return f"{last.lineno}: {ast.unparse(last)[:LONGEST_TEXT]}" if last else ""


def _scope(tree: ast.Module, line: int) -> Scope:
    inner: Scope = tree
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.lineno <= line <= (node.end_lineno or 0):
            inner = node
    return inner


def _binds(node: ast.Assign | ast.AugAssign | ast.AnnAssign, name: str) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(isinstance(part, ast.Name) and part.id == name for each in targets for part in ast.walk(each))


def _arguments(frame: FrameType) -> list[GivenValue]:
    code, function = frame.f_code, f"{frame.f_globals.get('__name__', '')}.{frame.f_code.co_name}"
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    found = [described(name, frame.f_locals[name], function) for name in names if name in frame.f_locals]
    return [one for one in found if one.kind not in ("nothing", "object")][:MOST_OF_A_FUNCTION]


def described(name: str, value: Any, function: str = "", origin: str = "") -> GivenValue:
    """A value as facts."""
    facts: dict[str, Any] = {"kind": "object"}
    # Measuring `min()` may itself be what fails: on a meta tensor, on a GPU after an assertion, in a script's subclass.
    with suppress(Exception):  # a value that cannot be measured is named by its type
        facts = _facts(value)
    return GivenValue(name, type(value).__name__, function=function, origin=origin, **facts)


def _kinds(value: Any) -> set[str]:
    return {base.__module__.partition(".")[0] + "." + base.__name__ for base in type(value).__mro__}


def _is_module(value: Any) -> bool:
    return not isinstance(value, type) and "torch.Module" in _kinds(value)


def _facts(value: Any) -> dict[str, Any]:
    kinds = _kinds(value)
    if value is None:
        return {"kind": "nothing"}
    if isinstance(value, bool | int | float):
        return {"kind": "number", "lowest": float(value), "highest": float(value), "text": repr(value)}
    if isinstance(value, str):
        return {"kind": "text", "length": len(value), "text": repr(value[:LONGEST_TEXT])}
    if "torch.Tensor" in kinds:
        return _tensor(value)
    if "torch.Module" in kinds:
        return _module(value)
    if "numpy.ndarray" in kinds and type(value).__module__.partition(".")[0] == "numpy":
        return {"kind": "array", "shape": tuple(map(int, value.shape)), "dtype": str(value.dtype), **_range(value)}
    if kinds & {"pandas.DataFrame", "datasets.Dataset"}:
        columns = attribute(value, "columns", None) if "pandas.DataFrame" in kinds else value.column_names
        return {"kind": "table", "names": _names(columns), "length": len(value)}
    if "pandas.Series" in kinds:
        return {"kind": "column", "length": len(value), "dtype": str(value.dtype)}
    return _container(value)


def _weights(module: Any) -> Iterator[Any]:
    """The weights of a module and its parts, from its dictionaries: a script may define `parameters` itself."""
    own = _dictionary(module)
    yield from (weight for weight in own.get("_parameters", {}).values() if weight is not None)
    for part in own.get("_modules", {}).values():
        yield from _weights(part) if part is not None else ()


def _container(value: Any) -> dict[str, Any]:
    if (data := _mapping(value)) is not None:
        return {"kind": "dictionary", "names": _names(data), "length": len(data)}
    if "evaluate.EvaluationModule" in _kinds(value):
        return {"kind": "metric"}
    if (parts := _sequence(value)) is not None:
        texts = [described("", each).summary for each in parts[:3]]
        return {"kind": "sequence", "length": len(parts), "text": "; ".join(texts)}
    return {"kind": "object"}


def _names(keys: Any) -> tuple[str, ...]:
    return tuple(str(key) for key in list(keys)[:MOST_NAMES])


def _tensor(value: Any) -> dict[str, Any]:
    dtype = str(value.dtype).removeprefix("torch.")
    facts = {"kind": "tensor", "shape": tuple(map(int, value.shape)), "dtype": dtype, "device": str(value.device)}
    return {**facts, "requires_grad": bool(value.requires_grad), **(_range(value.detach()) if _is_plain(value) else {})}


def _is_plain(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "torch" and value.device.type == "cpu" and not value.is_sparse


def _range(value: Any) -> dict[str, Any]:
    size = value.numel() if has(value, "numel") else value.size
    if not 0 < size <= MOST_ELEMENTS or "bool" in str(value.dtype) or "complex" in str(value.dtype):
        return {}
    lowest, highest = float(value.min()), float(value.max())
    # NaN - NaN and inf - inf are NaN, which equals nothing.
    is_finite = lowest - lowest == 0 and highest - highest == 0
    return {"lowest": lowest, "highest": highest, "is_finite": is_finite}


def _module(value: Any) -> dict[str, Any]:
    weights = list({id(weight): weight for weight in _weights(value)}.values())
    is_torchs = type(value).__module__.startswith("torch.")
    return {
        "kind": "module",
        "text": f"{value.extra_repr()}{_odd_weight(value)}" if is_torchs else "",
        "dtype": " and ".join(sorted({str(weight.dtype).removeprefix("torch.") for weight in weights})),
        "weights": len(weights),
        "trainable": sum(weight.requires_grad for weight in weights),
    }


def _odd_weight(layer: Any) -> str:
    """The shape of the weight of a linear layer, where it is not the one that the layer was made with."""
    own = _dictionary(layer)
    sizes, weight = (own.get("out_features"), own.get("in_features")), own.get("_parameters", {}).get("weight")
    if None in sizes or not has(weight, "shape") or tuple(weight.shape) in (sizes, (0,)):
        return ""
    return f", weight {list(weight.shape)}"


def changed_in_place(path: str, line: int) -> list[tuple[int, str]]:
    """The statements of a function that change in place what the statement at a line assigns, as line and code."""
    tree = parsed(path)
    made = _statement(tree, line)
    if tree is None or not isinstance(made, ast.Assign):
        return []
    names = {node.id for target in made.targets for node in ast.walk(target) if isinstance(node, ast.Name)}
    later = [node for node in ast.walk(_scope(tree, line)) if isinstance(node, ast.stmt) and node.lineno >= line]
    return [(node.lineno, ast.unparse(node)) for node in later if _changes(node, names)]


def _changes(node: ast.stmt, names: set[str]) -> bool:
    match node:
        case ast.AugAssign(target=ast.Name(id=name)) | ast.AugAssign(target=ast.Subscript(value=ast.Name(id=name))):
            return name in names
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name))]):
            return name in names
        case ast.Expr(value=value) | ast.Assign(value=value) | ast.Return(value=ast.expr() as value):
            return any(_is_in_place(call, names) for call in ast.walk(value) if isinstance(call, ast.Call))
        case _:
            return False


def _is_in_place(call: ast.Call, names: set[str]) -> bool:
    """A method such as `add_`, or a function with `inplace=True`, of one of the names."""
    options = [option for option in call.keywords if option.arg == "inplace"]
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)) if name in names:
            return attr.endswith("_") and not attr.endswith("__")
        case ast.Call(args=[ast.Name(id=name), *_]) if name in names and options:
            return isinstance(options[0].value, ast.Constant) and options[0].value.value is True
        case _:
            return False


def near_files(error: BaseException) -> tuple[GivenValue, ...]:
    """A file of nearly the name of one that is missing, in the same folder."""
    name = attribute(error, "filename", None)
    if not isinstance(error, FileNotFoundError) or not isinstance(name, str):
        return ()
    folder, base = os.path.split(name)
    try:
        there = os.listdir(folder or ".")
    except OSError:
        return ()
    near = difflib.get_close_matches(base, there, n=1, cutoff=0.8)
    return tuple(GivenValue(name, "str", "file", SCRIPT, text=os.path.join(folder, each)) for each in near)
