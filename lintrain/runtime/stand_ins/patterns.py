"""A text that a regular expression finds, so that a made row holds what the script searches for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from lintrain.runtime.child.library import library

WORD = "word"


def fitting_text(pattern: Any) -> str | None:
    """A text that a pattern finds; None for one that this cannot make."""
    if not isinstance(pattern, str):
        return None
    try:
        made = _text(library("re._parser").parse(pattern))
    except (re.error, ImportError, KeyError, ValueError, RecursionError):
        return None
    # The parser ignores what comes before and after (`(?=…)`), so that the text may not fit: it is tried.
    return made if re.search(pattern, made) and made.strip() else None


def _text(items: Iterable[tuple[Any, Any]]) -> str:
    return "".join(_piece(str(kind).lower(), value) for kind, value in items)


def _piece(kind: str, value: Any) -> str:
    match kind:
        case "literal":
            return chr(value)
        case "any" | "not_literal":
            return WORD
        case "in":
            return _of_class(value)
        case "max_repeat" | "min_repeat" | "possessive_repeat":
            least, most, inner = value
            return _text(inner) * max(int(least), min(1, int(most)))
        case "subpattern":
            return _text(value[-1])
        case "branch":
            return _text(value[1][0])
        case "at" | "assert" | "assert_not":
            return ""
        case _:
            raise ValueError(kind)


def _of_class(items: Any) -> str:
    kind, value = items[0]
    match str(kind).lower():
        case "literal":
            return chr(value)
        case "range":
            return chr(value[0])
        case "category":
            named = str(value).lower()
            return "7" if "not" not in named and "digit" in named else " " if named.endswith("category_space") else "w"
        case "negate":
            return "w"
        case _:
            raise ValueError(kind)
