"""An argument or a setting that a script looks up in a table of its own: `MODELS[arguments.model_type]`."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from lintrain.runtime.child.frames import is_users
from lintrain.runtime.child.library import is_dictionary, is_row
from lintrain.runtime.stand_ins.expressions import MISSING, Raised, raised, refused_by, value_of

LEAST = 4
"""Letters of a name that is no common word: `dim` and `out` are in many messages."""


def asked_argument(error: BaseException, made: Mapping[str, str]) -> dict[str, str]:
    """The arguments, of those whose value was `made` up, that need a key of a dictionary; empty for other errors."""
    where = next(raised(error), None)
    found = _looked_up(error, where) if where is not None else None
    if found is None:
        return {}
    key, node, known = found
    same = [name for name, value in made.items() if isinstance(key, str) and value == key]
    keys = [each for each in known if isinstance(each, str)]
    # Several arguments may have the same value: those with the name that the table is asked by are meant.
    asked = {_last_name(each) for each in ast.walk(node)} - {""}
    named = [name for name in same if any(name == each or name.endswith(f"_{each}") for each in asked)]
    # Else the name that the value has in a function further out, which passes it on under another one.
    named = named or _passed_on(error, key, same)
    # A list that a value is not in may be about any text; a key that is not there is the value itself.
    chosen = named or (same if isinstance(error, KeyError) else [])
    return dict.fromkeys(chosen, keys[0]) if keys else {}


def _looked_up(error: BaseException, where: Raised) -> tuple[Any, ast.expr, list[Any]] | None:
    """The value that is no key of a dictionary or no item of a list, its expression, and the keys or items."""
    if isinstance(error, KeyError) and error.args and isinstance(where.node, ast.Subscript):
        table: Any = value_of(where.node.value, where.frame)
        return (error.args[0], where.node.slice, [*table]) if is_dictionary(table) else None
    if not isinstance(error, AssertionError | ValueError | NotImplementedError):
        return None
    for test in refused_by(where):
        match test:
            case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()], comparators=[owner]):
                several = _values(owner, where)
                if several and (asked := value_of(left, where.frame)) is not MISSING and asked not in several:
                    return asked, left, several
            case _:
                pass
    return None


def _values(owner: ast.expr, where: Raised) -> list[Any]:
    """The items of a list, the keys of a dictionary, or those that are written in the expression itself."""
    match owner:
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
            return [part.value for part in parts if isinstance(part, ast.Constant)]
        case ast.Call(func=ast.Attribute(attr="keys", value=table), args=[]):
            return _values(table, where)
        case _:
            known = value_of(owner, where.frame)
            # A set has no order: another run would take another one.
            is_plain = is_dictionary(known) or is_row(known)
            return [*known] if is_plain else sorted(map(str, known)) if type(known) in (set, frozenset) else []


def _passed_on(error: BaseException, value: str, names: Sequence[str]) -> list[str]:
    """The names that the value has in the innermost function with one: of a variable, or of what a call is given."""
    for each in raised(error):
        given = each.frame.f_locals
        calls = [node for node in ast.walk(each.node) if isinstance(node, ast.Call)]
        asked = {_last_name(part) for call in calls for part in (*call.args, *(key.value for key in call.keywords))}
        found = [name for name in names if isinstance(own := given.get(name), str) and own == value]
        if found := found or [name for name in names if name in asked]:
            return found
    return []


def missing_arguments(error: BaseException, optional: Set[str]) -> list[str]:
    """The arguments, of those that may be left out, whose names are in the script's own error about them."""
    own = next(raised(error), None)
    is_own = own is not None and is_users(own.frame.f_code.co_filename)
    if not is_own or not isinstance(error, ValueError | AssertionError | RuntimeError):
        return []
    words = re.findall(r"[a-z0-9]+", str(error).lower().replace("_", " "))
    parts = {name: name.lower().split("_") for name in optional if len(name) > LEAST}
    named = [name for name, each in parts.items() if {*each} <= {*words}]
    return sorted(named, key=lambda name: (words.index(parts[name][0]), name))[:1]


CONFIGURATION = re.compile(r"(.*_)?(config|cfg)(_file|_path)?")
SETTINGS = ("*.yaml", "*.yml", "*.json", "*.toml")


TOP_KEY = re.compile(r"^[\"']?(\w+)[\"']?\s*[:=]|^\[(\w+)\]|^ {1,4}\"(\w+)\":", re.MULTILINE)
MOST_FILES, LONGEST = 200, 100_000


def own_configuration(name: str, script: Path) -> str | None:
    """For an argument that names a file of settings: of those near the script the one with most keys that it reads."""
    if CONFIGURATION.fullmatch(name) is None:
        return None
    folders = [each for base in dict.fromkeys((script.parent, Path())) for each in sorted(base.glob("conf*"))]
    found = (file for folder in folders if folder.is_dir() for kind in SETTINGS for file in sorted(folder.rglob(kind)))
    files = [*itertools.islice(found, MOST_FILES)]
    # Of equal ones the first, as before a project had several.
    text = _text_of(script)
    return str(max(files, key=lambda file: _fits(file, text))) if files else None


def _fits(file: Path, text: str) -> int:
    """How many of the first keys of a settings file a script's text has in quotation marks, or asks an object for."""
    keys = {found[found.lastindex or 0] for found in TOP_KEY.finditer(_text_of(file))}
    return sum(re.search(rf"[\"'.]{re.escape(key)}\b", text) is not None for key in keys)


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")[:LONGEST]
    except OSError:
        return ""


def _last_name(node: ast.AST) -> str:
    """`model_type` of the name, or of `arguments.model_type` and `settings["model_type"]`."""
    if isinstance(node, ast.Subscript):
        return _last_name(node.slice)
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    return (node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else "").lower()
