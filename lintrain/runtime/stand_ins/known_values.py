"""An argument that a script looks up in a table of its own: `MODELS[arguments.model_type]`."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

from lintrain.runtime.child.frames import is_users
from lintrain.runtime.child.library import is_dictionary
from lintrain.runtime.stand_ins.expressions import raised, value_of

LEAST = 4
"""Letters of a name that is no common word: `dim` and `out` are in many messages."""


def asked_argument(error: BaseException, made: Mapping[str, str]) -> dict[str, str]:
    """The arguments, of those whose value was `made` up, that need a key of a dictionary; empty for other errors."""
    key = error.args[0] if isinstance(error, KeyError) and error.args else None
    same = [name for name, value in made.items() if isinstance(key, str) and value == key]
    where = next(raised(error), None)
    if not same or where is None or not isinstance(where.node, ast.Subscript):
        return {}
    table: Any = value_of(where.node.value, where.frame)
    keys = [each for each in table if isinstance(each, str)] if is_dictionary(table) else []
    # Several arguments may have the same value: those with the name that the table is asked by are meant.
    asked = {_last_name(each) for each in ast.walk(where.node.slice)} - {""}
    named = [name for name in same if any(name == each or name.endswith(f"_{each}") for each in asked)]
    return dict.fromkeys(named or same, keys[0]) if keys else {}


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
    """`model_type` of the name, or of `arguments.model_type`."""
    return (node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else "").lower()
