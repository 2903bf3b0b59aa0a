"""Parsing, with f-strings of Python 3.12 made readable for older versions."""

from __future__ import annotations

import ast
import re
import sys
import warnings

from lintrain.startup.lazy_pattern import lazy_pattern

REUSED_QUOTES = lazy_pattern(r"""\[(["'])([^"'\\\[\]{}]*)\1\]""")
"""A subscript in the quotes that the f-string around it may have itself, as it may since Python 3.12."""

ENDLESS = re.compile(r"0[xXoObB]_?(?=[0-9a-fA-F_]{3500})")
"""A number with more decimal digits than Python prints: a message with it would fail."""

MOST_PARTS = 500
LONG_NAME = re.compile(rf"(?:\.[ \t\f\r\n\\]*+\w++[ \t\f\r\n\\]*+){{{MOST_PARTS}}}")
"""A dotted name of so many parts: of one that is imported the parser keeps every beginning, which filled two gigabytes
for a name of 90 KB."""

BLOCK = re.compile(rf"[\w. \t\f\r\n\\]{{{MOST_PARTS}}}")
"""Characters of dotted names alone: a name of so many parts has twice as many, so it fills a block at some multiple."""

MOST_MENDED = 50
"""Lines of one file whose f-strings are read again."""


def parse(text: str) -> ast.Module:
    """The syntax tree of a text; raises SyntaxError where it does not parse, ValueError where a number has no end."""
    if len(text) > 3500 and ENDLESS.search(text):
        raise ValueError("a number in it has more digits than Python writes")
    if _may_hold_long_name(text) and LONG_NAME.search(text):
        raise ValueError(f"a name in it has more than {MOST_PARTS} parts")
    with warnings.catch_warnings():
        # A wrong escape in the user's string is not ours to report; the parser would print a warning into our report.
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except SyntaxError as error:
            if sys.version_info >= (3, 12) or not error.msg.startswith("f-string"):
                raise
            return _parse_reused_quotes(text, error)


def _may_hold_long_name(text: str) -> bool:
    """Whether a search for a long name is worth its time, a fiftieth of a check: one look per 500 characters."""
    return any(BLOCK.match(text, start) for start in range(0, len(text) - MOST_PARTS + 1, MOST_PARTS))


def expression_of(code: str) -> ast.expr:
    """The tree of one expression of a script; raises SyntaxError where it is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as in `parse`
        return ast.parse(code, mode="eval").body


def _parse_reused_quotes(text: str, first: SyntaxError) -> ast.Module:
    """The tree with the inner quotes of f-strings changed to others, every column as it was; raises `first`."""
    lines = text.split("\n")
    error = first
    for _ in range(MOST_MENDED):
        index = (error.lineno or 0) - 1
        requoted = REUSED_QUOTES.sub(_with_other_quotes, lines[index]) if 0 <= index < len(lines) else ""
        if not requoted or requoted == lines[index]:
            break
        lines[index] = requoted
        try:
            return ast.parse("\n".join(lines))
        except SyntaxError as later:
            if not later.msg.startswith("f-string") or later.lineno == error.lineno:
                break
            error = later
    raise first


def _with_other_quotes(found: re.Match[str]) -> str:
    other = "'" if found[1] == '"' else '"'
    return f"[{other}{found[2]}{other}]"
