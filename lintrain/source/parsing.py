"""Parsing, of newer grammar than that of the Python which runs lintrain too."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator

from lintrain.source.newer_grammar import (
    F_STRINGS_NEST,
    LONGEST,
    NOT_READ,
    TEMPLATED,
    NewerGrammarError,
    is_at_newer,
    may_be_newer,
    parse_newer,
)
from lintrain.startup.lazy_pattern import lazy_pattern

ENDLESS = lazy_pattern(r"0[xXoObB]_?(?=[0-9a-fA-F_]{3500})")
"""A number with more decimal digits than Python prints: a message with it would fail."""

MOST_PARTS = 500
LONG_NAME = lazy_pattern(rf"(?:\.[ \t\f\r\n\\]*+\w++[ \t\f\r\n\\]*+){{{MOST_PARTS}}}")
"""A dotted name of so many parts: of one that is imported the parser keeps every beginning, which filled two gigabytes
for a name of 90 KB."""

BLOCK = lazy_pattern(rf"[\w. \t\f\r\n\\]{{{MOST_PARTS}}}")
"""Characters of dotted names alone: a name of so many parts has twice as many, so it fills a block at some multiple."""

NESTING = lazy_pattern(
    r"""[(\[{)\]},;]|\n[ \t]*|\belif\b|\b(?:not|lambda|if|await|and|or|in|is|yield|from|for)\b|[-+*/%@&|^~<>=!:."']"""
)
# What a text may hold for libcst's parser, which ends the process where code is nested by thousands.
MOST_BRACKETS, MOST_CHAINED, MOST_BRANCHES, DEEPEST_MARGIN = 30, 80, 300, 400

FORMATTED = lazy_pattern(r"""(?<![\w"'])(?:[fFtT][rR]?|[rR][fFtT])["']""")
LONG_FORMATTED = lazy_pattern(r"""(?<![\w"'])(?:[fFtT][rR]?|[rR][fFtT])(?:\"{3}|'{3})""")
LONG_TEXT = lazy_pattern(r"""\"{3}|'{3}""")
NO_CODE = lazy_pattern(r"""(?<!["'])(["'])(?!\1)(?:[^"'\\\n]|\\.|(?!\1)["']){0,200}\1|#.*""")


def parse(text: str) -> ast.Module:
    """The syntax tree of a text; raises SyntaxError where it does not parse, ValueError where a number has no end.

    NewerGrammarError is a SyntaxError too: of a text that only a newer Python reads.
    """
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
            if not may_be_newer(text):
                raise
            if len(text) > LONGEST or not _is_shallow(text):
                raise NewerGrammarError(NOT_READ) if _may_be_at_newer(text, error) else error from None
            if (newer := parse_newer(text, error)) is None:
                raise
            return newer


def _may_be_at_newer(text: str, error: SyntaxError) -> bool:
    """Whether an error is at a newer statement, or on a line with a string that a newer Python may read otherwise."""
    lines = text.split("\n")
    line = lines[(error.lineno or 1) - 1] if (error.lineno or 1) <= len(lines) else ""
    strings = TEMPLATED if F_STRINGS_NEST else FORMATTED
    return is_at_newer(text, error) or strings.search(line) is not None


def _may_hold_long_name(text: str) -> bool:
    """Whether a search for a long name is worth its time, a fiftieth of a check: one look per 500 characters."""
    return any(BLOCK.match(text, start) for start in range(0, len(text) - MOST_PARTS + 1, MOST_PARTS))


def _is_shallow(text: str) -> bool:
    """Whether no part of a text can be nested deeply: the parser of libcst ends the process for such a text.

    Only brackets, operators and words that take an expression nest, and a comma or the end of a statement ends a chain.
    Brackets in plain strings and comments count for nothing, those in a line with an f-string all count.
    """
    if any(line.endswith("\\") and FORMATTED.search(line) for line in text.split("\n")):
        return False
    depth = chained = branches = 0
    for found in NESTING.finditer("\n".join(_without_strings(text))):
        match found[0]:
            case "(" | "[" | "{":
                depth, chained = depth + 1, chained + 1
            case ")" | "]" | "}":
                depth = max(0, depth - 1)
            case "," | ";":
                chained = 0
            case "elif":
                branches += 1
            case sign if sign[0] == "\n":
                chained = chained if depth else 0
                depth += len(sign) > DEEPEST_MARGIN and MOST_BRACKETS
            case _:
                chained += 1
        if depth > MOST_BRACKETS or chained > MOST_CHAINED or branches > MOST_BRANCHES:
            return False
    return True


def _without_strings(text: str) -> Iterator[str]:
    """The lines without plain strings and comments; all of those with an f-string, whose quotes may hold code."""
    skips, end = LONG_FORMATTED.search(text) is None, ""
    for written in text.split("\n"):
        line = written
        if end:
            _, closing, line = line.partition(end)
            end = "" if closing else end
        if not FORMATTED.search(line):
            line = NO_CODE.sub("'", line)
            while skips and (opening := LONG_TEXT.search(line)):
                _, closing, rest = line[opening.end() :].partition(opening[0])
                end = "" if closing else opening[0]
                line = f"{line[: opening.start()]}'{rest}"
        yield line


def expression_of(code: str) -> ast.expr:
    """The tree of one expression of a script; raises SyntaxError where it is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as in `parse`
        return ast.parse(code, mode="eval").body
