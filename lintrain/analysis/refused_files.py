"""Files that a script writes with `torch.save` and that its `torch.load` refuses to read.

Since torch 2.6, `torch.load` restores tensors and plain values alone, unless `weights_only=False` is passed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from lintrain.analysis import gradients
from lintrain.libraries.stdlib.argparse_options import Namespace
from lintrain.model.location import Location
from lintrain.pipeline import blocks
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.modules import is_module
from lintrain.pipeline.record import LibraryCall, Pipeline
from lintrain.pipeline.values.python import Instance, Value, literal, options_of
from lintrain.pipeline.values.python import Mapping as Entries
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

ALLOWED = lazy_pattern(r"safe_globals\(|NO_WEIGHTS_ONLY_LOAD|torch\.load\s*=[^=]|\bpickle_module\b")
"""Code that lets `torch.load` restore other objects."""

NUMBERS = frozenset(f"numpy.{name}" for name in ("mean", "median", "average", "std", "var", "nanmean", "percentile"))
"""Functions that give a number of NumPy for a list, or an array for several of them."""

ARRAYS = frozenset(f"numpy.{name}" for name in ("array", "asarray", "zeros", "ones", "concatenate", "stack"))

OTHERS = {
    "collections.defaultdict": ("a `defaultdict`", "save `dict({})`"),
    "collections.deque": ("a `deque`", "save `list({})`"),
    "datetime.datetime.now": ("a date", "save `str({})`"),
    "pathlib.Path": ("a `Path`", "save `str({})`"),
}
"""What makes other objects that are no plain values, what they are, and what to save instead."""

MOST_CALLS = 50
"""How many files that a script saves, or loads, are compared: each of the one with each of the other."""

SETTINGS = frozenset({"self", "args", "opt", "opts", "cfg", "config", "hparams"})
"""Names that usually mean the same object in all functions of a file."""


MAKERS = NUMBERS | ARRAYS | OTHERS.keys()


@dataclass(frozen=True, slots=True)
class RefusedFile:
    """A call that reads a file, what it refuses there, where that is saved, and what to save instead."""

    location: Location
    holds: str
    saved: Location
    remedy: str


@dataclass(frozen=True, slots=True)
class _Write:
    """A `torch.save`: its call, its scope and its keys; what `torch.load` refuses, where that is, and what to save."""

    call: ast.Call
    scope: ast.AST
    holds: str
    location: Location
    remedy: str
    keys: frozenset[str]


def refused_files(pipeline: Pipeline) -> Iterator[RefusedFile]:
    """The calls of `torch.load` that fail on what the same file saves under the same path."""
    reads = [call for call in pipeline.calls if call.path == "torch.load" and _is_restricted(pipeline, call)]
    if not reads or any(source.contains(ALLOWED) for source in pipeline.sources.values()):
        return
    writes = _writes(pipeline)
    for read in reads[:MOST_CALLS]:
        source = pipeline.source_of(read.location)
        call, scope = _call_at(source, read.location), blocks.scope_of(pipeline, read.location)
        same = [each for each in writes.get(source.path, ()) if call is not None and _is_same_file(each, call, scope)]
        if same and all(each.holds for each in same):
            yield RefusedFile(read.location, same[0].holds, same[0].location, same[0].remedy)


def _is_restricted(pipeline: Pipeline, call: LibraryCall) -> bool:
    """Whether a call certainly restores tensors and plain values alone."""
    given = call.arguments.get("weights_only")
    if call.is_open or call.is_guarded or call.positional != 1:
        return False
    if given is not None:
        return literal(given.value) is True
    return gradients.is_since(pipeline.targets, "torch", (2, 6))


def _writes(pipeline: Pipeline) -> dict[str, list[_Write]]:
    """The calls of `torch.save` in each file."""
    found = dict[str, list[_Write]]()
    makers = {call.location: call for call in pipeline.calls if call.path in MAKERS}
    for event in pipeline.acts(Act.SAVE)[:MOST_CALLS]:
        source = pipeline.source_of(event.location)
        call = _call_at(source, event.location)
        if call is not None and len(call.args) == 2 and unparse(call.func).rpartition(".")[2] == "save":
            scope = blocks.scope_of(pipeline, event.location)
            found.setdefault(source.path, []).append(_write(source, event, call, scope, makers))
    return found


def _write(
    source: Source, event: Event, call: ast.Call, scope: ast.AST, makers: Mapping[Location, LibraryCall]
) -> _Write:
    saved = event.subject
    holds, node = _refused(saved, None), call.args[0]
    content = _value_of(scope, node, call.lineno)
    for key, entry in zip(content.keys, content.values, strict=True) if isinstance(content, ast.Dict) else ():
        if holds is None and isinstance(key, ast.Constant) and isinstance(key.value, str):
            value = saved.entries.get(key.value) if isinstance(saved, Entries) else None
            made = _value_of(scope, entry, call.lineno)
            holds = _refused(value, makers.get(source.location(made)) or _maker(value, makers))
            node = entry if holds else node
    pairs = content.keys if isinstance(content, ast.Dict) else []
    keys = frozenset(str(each.value) for each in pairs if isinstance(each, ast.Constant))
    what, remedy = holds or ("", "")
    code = unparse(node) if len(unparse(node)) <= MOST_CODE else "…"
    return _Write(call, scope, what, source.location(node), remedy.format(code), keys)


def _maker(value: Value | None, makers: Mapping[Location, LibraryCall]) -> LibraryCall | None:
    """The call that made a value, or one of those that made each of its possibilities by the same function."""
    options = options_of(value) if value is not None else ()
    made = [makers.get(each.origin) if each.origin is not None else None for each in options]
    return made[0] if len({each.path if each is not None else "" for each in made}) == 1 else None


MOST_CODE = 30


def _refused(value: Value | None, made: LibraryCall | None) -> tuple[str, str] | None:
    """What a value is, if `torch.load` certainly refuses it, and what to save instead; None otherwise."""
    if made is not None and made.path in OTHERS:
        return OTHERS[made.path]
    if made is not None:
        is_number = made.path in NUMBERS and made.positional == 1 and not made.arguments
        return ("a NumPy number", "save `float({})`") if is_number else ("a NumPy array", "save it as a tensor")
    if value is not None and is_module(value):
        return "a whole network", "save `{}.state_dict()`"
    match value:
        case Namespace():
            return "a `Namespace`", "save `vars({})`"
        case Instance(cls=cls):
            name = cls.node.name if len(cls.node.name) <= MOST_CODE else "a class"
            return f"an object of `{name}`", "save its values alone"
        case _:
            return None


def _value_of(scope: ast.AST, node: ast.expr, line: int) -> ast.expr:
    """What a name was given last in its scope above a line; other expressions are their own value."""
    for _ in range(3):
        if not isinstance(node, ast.Name):
            return node
        name, above = node.id, [each for each in own_nodes(scope) if isinstance(each, ast.Assign)]
        given = [each for each in above if each.lineno < line and any(unparse(to) == name for to in each.targets)]
        if not given:
            return node
        line, node = given[-1].lineno, given[-1].value
    return node


def _call_at(source: Source, location: Location) -> ast.Call | None:
    return source.cached(_calls_by_location).get(location)


def _calls_by_location(source: Source) -> dict[Location, ast.Call]:
    return {source.location(each): each for each in source.nodes_of(ast.Call)}


def _is_same_file(write: _Write, read: ast.Call, scope: ast.AST) -> bool:
    """Whether a call reads what another one wrote: the code of the path is the same, and so is what it names.

    One function that saves a file and another one that loads it name only its folder in different ways.
    """
    path = write.call.args[1]
    if not read.args:
        return False
    if unparse(read.args[0]) != unparse(path):
        name, read_keys = _name_of_file(path), _keys_read(scope, read)
        is_named = name != "" and name == _name_of_file(read.args[0])
        is_shared = len(read_keys) >= FEWEST_KEYS and read_keys <= write.keys
        return (is_named or is_shared) and _save_and_load(write.scope, scope)
    names = {each.id for each in walk(path) if isinstance(each, ast.Name)}
    if write.scope is not scope and not _are_a_pair(write.scope, scope, names):
        local = [each for own in (write.scope, scope) if not isinstance(own, ast.Module) for each in _bound(own)]
        return not any(name in names - SETTINGS for name, _ in local)
    if write.scope is not scope:
        return True
    first, last = sorted((write.call.lineno, read.lineno))
    return not any(name in names and first < line < last for name, line in _bound(scope))


FEWEST_KEYS = 3
"""How many entries two functions have to agree on, for the one to read what the other one has written."""


def _keys_read(scope: ast.AST, read: ast.Call) -> set[str]:
    """The keys of the entries that a function reads of a file: `state = torch.load(path)`, `state["model"]`."""
    nodes = own_nodes(scope)
    stored = [unparse(each.targets[0]) for each in nodes if isinstance(each, ast.Assign) and each.value is read]
    found = set[str]()
    for node in nodes if stored else ():
        match node:
            case ast.Subscript(value=owner, slice=ast.Constant(value=str(key))):
                pass
            case ast.Call(func=ast.Attribute(value=owner, attr="get"), args=[ast.Constant(value=str(key)), *_]):
                pass
            case _:
                continue
        if unparse(owner) == stored[0]:
            found.add(key)
    return found


SAVES, LOADS = lazy_pattern(r"(?i)save|dump|(?<!re)store"), lazy_pattern(r"(?i)load|resume|restore")


def _are_a_pair(writing: ast.AST, reading: ast.AST, names: set[str]) -> bool:
    """Whether one function saves and the other one loads, each under the path that its own parameter names."""
    if not _save_and_load(writing, reading):
        return False
    assert isinstance(writing, ast.FunctionDef)
    assert isinstance(reading, ast.FunctionDef)
    given = [{each.arg for each in walk(function.args) if isinstance(each, ast.arg)} for function in (writing, reading)]
    own = {name for function in (writing, reading) for name, line in _bound(function) if line != function.lineno}
    return all(names <= each for each in given) and not names & own


def _save_and_load(writing: ast.AST, reading: ast.AST) -> bool:
    """Whether one function is named after saving, and the other one after loading alone."""
    if not isinstance(writing, ast.FunctionDef) or not isinstance(reading, ast.FunctionDef):
        return False
    is_named = SAVES.search(writing.name) is not None and LOADS.search(reading.name) is not None
    return is_named and not SAVES.search(reading.name)


def _name_of_file(path: ast.expr) -> str:
    """The literal name of a file in a folder: `folder / "state.pt"`; empty for other paths."""
    match path:
        case ast.BinOp(op=ast.Div(), right=ast.Constant(value=str(name))):
            return name
        case ast.Call(func=ast.Attribute(attr="join"), args=[_, *_, ast.Constant(value=str(name))]):
            return name
        case _:
            return ""


def _bound(scope: ast.AST) -> Iterator[tuple[str, int]]:
    """The names that a function binds, parameters among them, or that a file does; with the lines where it does."""
    if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from ((each.arg, scope.lineno) for each in walk(scope.args) if isinstance(each, ast.arg))
    for node in own_nodes(scope):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
