"""Files of settings that are not here: a JSON object with the keys that the script reads, where it reads one object."""

from __future__ import annotations

import ast
import linecache
import re
import string
from collections.abc import Iterator
from types import FrameType

from lintrain.runtime.stand_ins.arguments import guess

Settings = dict[str, int | float | str | dict[str, int] | dict[str, str]]
NUMBERS_OF_WORDS = re.compile(r"\w+2(id|idx|index)s?|\w*vocab(ulary)?|\w+_to_(id|idx|index)")
WORDS_OF_NUMBERS = re.compile(r"(id|idx|index)2\w+|(id|idx|index)_to_\w+")
SIZES = re.compile(r"(\w+_)?size|n(um)?_\w+|count")
WORDS = ("<pad>", "<unk>", "<s>", "</s>", *string.ascii_letters)
ROWS = ("data", "rows", "examples", "items", "train", "test", "annotations", "images")
"""Keys of an object that hold rows."""
SIZE = 64
"""More than there are words."""
COUNTED = ("len", "enumerate", "list", "sorted", "random.shuffle", "DataFrame")
"""What is given rows; a file that one of these gets is no file of settings."""


def settings_of_file(frame: FrameType, script: str) -> Settings | None:
    """The settings of the JSON file that a frame's line opens; None where the script reads rows from it."""
    return settings_of_line("".join(linecache.getlines(frame.f_code.co_filename)), frame.f_lineno, script)


def settings_of_line(text: str, line: int, script: str) -> Settings | None:
    """The settings that `json.load` gives for the file opened in a line of a text."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None
    # A file of rows is no mapping of settings: where the code loops over what it loaded, a data set stands in for it.
    names = set(_names(tree, line))
    unpacked = any(_is_unpacked(node, names) or _is_asked(node, names) for node in ast.walk(tree))
    keys = dict.fromkeys(key for node in ast.walk(tree) if (key := _key(node, names)) is not None)
    keys |= dict.fromkeys(_keys_at_once(tree, line))
    if not (unpacked or keys) or any(_takes_rows(node, names) for node in ast.walk(tree)):
        return None
    return {key: setting(key, script) for key in keys}


def setting(key: str, script: str) -> int | float | str | dict[str, int] | dict[str, str]:
    """The numbers of words for a key that names them, else a number or a text."""
    if NUMBERS_OF_WORDS.fullmatch(key.lower()):
        return {word: number for number, word in enumerate(WORDS)}
    if WORDS_OF_NUMBERS.fullmatch(key.lower()):
        return {str(number): word for number, word in enumerate(WORDS)}
    return SIZE if SIZES.fullmatch(key.lower()) else guess(key, script)


def _keys_at_once(tree: ast.Module, line: int) -> Iterator[str]:
    """The keys of `json.load(opened)["words"]` in the statement at a line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.With | ast.Assign) and _first_lines(node, line):
            for part in ast.walk(node):
                match part:
                    case ast.Subscript(value=ast.Call(func=ast.Attribute(attr="load" | "loads")), slice=key):
                        if isinstance(key, ast.Constant) and isinstance(key.value, str) and key.value not in ROWS:
                            yield key.value
                    case _:
                        pass


def _names(tree: ast.Module, line: int) -> Iterator[str]:
    """The variables that hold what is loaded by the statement at a line, or what its function returns."""
    for node in ast.walk(tree):
        if isinstance(node, ast.With | ast.Assign) and _first_lines(node, line):
            yield from (name for part in ast.walk(node) for name in _targets(part) if _loads(part))
        if isinstance(node, ast.FunctionDef) and _returns_loaded(node, line):
            assigned = (part for part in ast.walk(tree) if isinstance(part, ast.Assign))
            yield from (name for part in assigned if _calls(part.value, node.name) for name in _targets(part))


def _returns_loaded(node: ast.FunctionDef, line: int) -> bool:
    """Whether a line is in a function that returns what it loads."""
    is_in = node.lineno <= line <= (node.end_lineno or line)
    return is_in and any(isinstance(part, ast.Return) and _loads(part) for part in ast.walk(node))


def _first_lines(node: ast.With | ast.Assign, line: int) -> bool:
    """Whether a line is the head of a `with`, or part of an assignment."""
    last = node.items[-1].context_expr.end_lineno if isinstance(node, ast.With) else node.end_lineno
    return node.lineno <= line <= (last or line)


def _targets(node: ast.AST) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else []
    return [each.id for each in targets if isinstance(each, ast.Name)]


def _loads(node: ast.AST) -> bool:
    """Whether a statement's value is `json.load(…)` or `json.loads(…)` itself."""
    value = getattr(node, "value", None)
    return (
        isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in ("load", "loads")
    )


def _calls(value: ast.expr, name: str) -> bool:
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == name


def _is(value: ast.expr, names: set[str]) -> bool:
    return isinstance(value, ast.Name) and value.id in names


def _is_unpacked(node: ast.AST, names: set[str]) -> bool:
    """`LoraConfig(**settings)`."""
    return isinstance(node, ast.keyword) and node.arg is None and _is(node.value, names)


def _is_asked(node: ast.AST, names: set[str]) -> bool:
    """`settings.get("lr", 0.1)`, `settings.items()`: what only an object has."""
    match node:
        case ast.Call(func=ast.Attribute(attr="get" | "items" | "keys" | "values", value=value)):
            return _is(value, names)
        case _:
            return False


def _key(node: ast.AST, names: set[str]) -> str | None:
    """The key of `settings["lr"]` and `settings.get("lr")`."""
    match node:
        case ast.Subscript(value=value, slice=ast.Constant(value=str(key)), ctx=ast.Load()) if _is(value, names):
            return key
        case ast.Call(func=ast.Attribute(attr="get", value=value), args=[ast.Constant(value=str(key))]) if _is(
            value, names
        ):
            return key
        case _:
            return None


def _takes_rows(node: ast.AST, names: set[str]) -> bool:
    """Whether a node walks over the object, counts it, or reads it by numbers."""
    match node:
        case ast.For(iter=value) | ast.comprehension(iter=value):
            return _is(value, names)
        case ast.Subscript(value=value, slice=key) if _is(value, names):
            return not isinstance(key, ast.Constant) or not isinstance(key.value, str)
        case ast.Call(func=called, args=[first, *_]) if _is(first, names):
            return ast.unparse(called) in COUNTED
        case _:
            return False
