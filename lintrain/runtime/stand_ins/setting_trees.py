"""The settings that a script reads from a file which is not here: keys within keys, by what its text asks them for."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

from lintrain.startup.lazy_dataclass import dataclass

LOADS = frozenset({"safe_load", "full_load", "unsafe_load", "load", "loads", "load_yaml", "read_yaml"})
LOADERS = re.compile(r"(?i)yaml|toml|json|omegaconf|hjson|anyconfig")
WRAPPERS = frozenset(
    {
        "EasyDict",
        "edict",
        "Namespace",
        "SimpleNamespace",
        "Box",
        "Munch",
        "Dict",
        "AttrDict",
        "create",
        "DotMap",
        "dict",
    }
)
ROOTS = re.compile(r"(?i)(\w+_)?(config|cfg|conf|settings|hparams|opts?|hyp)")
"""Names of parameters that settings are passed to."""
METHODS = frozenset({*dir(dict), *dir(str), *dir(list)})
SWITCHES = re.compile(
    r"(?i)(use|is|do|with|save|load|enable|has|no)_\w+|\w*(shuffle|pretrained|verbose|resume|debug|enabled?)|fp16|bf16|amp"
)
"""Names of settings that are on or off."""
Path = tuple[str, ...]
Tree = dict[str, Any]


def settings_tree(script: str, guess: Callable[[str], Any]) -> Tree:
    """The settings that a text reads, with a value for each that `guess` gives for its name."""
    tree: Tree = {}
    read = reads_of(script)
    for path in sorted(read.asked - read.optional, key=lambda path: (len(path), path)):
        at = tree
        for key in path:
            inner = at.setdefault(key, {})
            at = inner
    return _with_values(tree, read.lists, guess)


def _with_values(tree: Tree, lists: frozenset[Path], guess: Callable[[str], Any], above: Path = ()) -> Tree:
    made: Tree = {}
    for key, inner in tree.items():
        path = (*above, key)
        # What is passed on needs no keys: the defaults of the function that gets them apply.
        if ITEMS in inner:
            made[key] = {}
        elif inner:
            made[key] = _with_values(inner, lists, guess, path)
        elif SWITCHES.fullmatch(key):
            made[key] = False
        else:
            made[key] = [guess(key)] if path in lists else guess(key)
    made.pop(ITEMS, None)
    return made


ITEMS = "**"
"""In a path: settings that are passed on as they are, of which no key is known."""


@dataclass(frozen=True)
class Reads:
    """The paths that a text asks its settings for; those that may be missing, and those that hold lists."""

    asked: frozenset[Path]
    optional: frozenset[Path]
    lists: frozenset[Path]


@functools.cache
def reads_of(script: str) -> Reads:
    """The keys that a text asks its settings for, each with those that it is within."""
    nodes = [*_nodes(script)]
    known = _Known({node.name for node in nodes if isinstance(node, ast.FunctionDef) and _returns_settings(node)})
    for node in nodes:
        known.take_parameters(node)
    # Twice: a function that is written first may use what is assigned below it.
    for _ in range(2):
        for node in nodes:
            known.take_assignment(node)
    paths = (
        frozenset(path for node in nodes for path in each(node) if path)
        for each in (known.asked, known.optional, known.counted)
    )
    return Reads(*paths)


def _returns_settings(node: ast.FunctionDef) -> bool:
    """Whether a function loads settings and returns something."""
    parts = [*ast.walk(node)]
    return any(_is_load(each) for each in parts) and any(isinstance(each, ast.Return) and each.value for each in parts)


def _is_load(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr=name, value=owner)):
            return name in LOADS and LOADERS.search(ast.unparse(owner)) is not None
        case _:
            return False


class _Known:
    """The variables that hold settings, and where within them."""

    def __init__(self, functions: set[str]) -> None:
        self._functions = functions
        self._paths = dict[str, Path]()

    def take_parameters(self, node: ast.AST) -> None:
        """A parameter whose name says that it holds all settings."""
        if isinstance(node, ast.arguments):
            self._paths.update((each.arg, ()) for each in node.args if ROOTS.fullmatch(each.arg))

    def take_assignment(self, node: ast.AST) -> None:
        """A variable that is assigned settings, or a part of them."""
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            path = self.path(node.value)
            if path is not None and isinstance(node.targets[0], ast.Name | ast.Attribute):
                # The first: a name that is assigned again mostly holds a part of what it held.
                self._paths.setdefault(ast.unparse(node.targets[0]), path)

    def path(self, node: ast.expr) -> Path | None:
        """Where within the settings an expression's value is; None for other values."""
        match node:
            case ast.Name() | ast.Attribute() if (text := ast.unparse(node)) in self._paths:
                return self._paths[text]
            case ast.Subscript(value=owner, slice=ast.Constant(value=str(key))):
                return self._within(owner, key)
            # `settings.name.lower()` asks a text for its method, and settings for no key.
            case ast.Attribute(value=owner, attr=key) if key not in METHODS:
                return self._within(owner, key)
            case ast.Call(func=ast.Attribute(attr="get", value=owner), args=[ast.Constant(value=str(key)), *_]):
                return self._within(owner, key)
            case ast.Call(func=ast.Name(id=name)) if name in self._functions:
                return ()
            case ast.Call(func=ast.Attribute(attr=name)) if name in self._functions or _is_load(node):
                return ()
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in WRAPPERS:
                given = [*node.args, *(each.value for each in node.keywords if each.arg is None)]
                return self.path(given[0]) if given else None
            case _:
                return None

    def _within(self, owner: ast.expr, key: str) -> Path | None:
        found = self.path(owner)
        return (*found, key) if found is not None else None

    def asked(self, node: ast.AST) -> Iterator[Path]:
        """The settings that a node reads."""
        match node:
            case ast.Subscript(ctx=ast.Load()) | ast.Attribute(ctx=ast.Load()):
                path = self.path(node)
                if path is not None:
                    yield path
            case ast.Call(func=ast.Attribute(attr="items" | "keys" | "values", value=owner)):
                path = self.path(owner)
                if path:
                    yield (*path, ITEMS)
            case ast.Call(func=ast.Attribute(attr="get"), args=[_]):
                path = self.path(node)
                if path is not None:
                    yield path
            case ast.keyword(arg=None, value=value):
                path = self.path(value)
                if path:
                    yield (*path, ITEMS)
            case _:
                pass

    def optional(self, node: ast.AST) -> Iterator[Path]:
        """The settings that a node looks for before it reads them."""
        match node:
            case ast.Compare(left=ast.Constant(value=str(key)), ops=[ast.In() | ast.NotIn()], comparators=[owner]):
                found = self._within(owner, key)
            case _:
                return
        if found is not None:
            yield found

    def counted(self, node: ast.AST) -> Iterator[Path]:
        """The settings that a node loops over or counts."""
        match node:
            case ast.For(iter=value) | ast.comprehension(iter=value) | ast.Starred(value=value):
                found = self.path(value)
            case ast.Call(func=ast.Name(id="len" | "enumerate" | "tuple" | "list"), args=[value, *_]):
                found = self.path(value)
            case _:
                return
        if found is not None:
            yield found


def _nodes(text: str) -> Iterator[ast.AST]:
    """The nodes of a text of one or several modules, or of those parts that are Python."""
    try:
        yield from ast.walk(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError):
        return
