"""A large notebook without its outputs: what only the screen needs is never decoded.

An output of one byte can take twenty-four in memory, and most of the bytes of a large notebook are outputs.
"""

from __future__ import annotations

import os

from lintrain.startup.lazy_pattern import lazy_pattern

SMALL = 4 * 2**20
"""Characters of a notebook that is decoded whole."""

DEEPEST = 1_000
"""Values inside of one another in an output; json gives up there as well."""

MOST_VALUES = 2_000_000
"""JSON values without the outputs; decoded they take less than 300 MB."""

OUTPUT_KEY = lazy_pattern(r'"(?:outputs|attachments|widgets)"[ \t\r\n]*:[ \t\r\n]*(?=[\[{])')
"""Inside of a string, the quotes of such a key have a backslash before them."""

UP_TO_BRACKET = lazy_pattern(
    r"""(?:[^"\[\]{}]++|"(?:[^"\\]++|\\[\s\S])*+"|\[[^"\[\]{}]*+\]|\{(?:[^"\[\]{}]++|"(?:[^"\\]++|\\[\s\S])*+")*+\})*+"""
    r"(?P<bracket>[\[\]{}])"
)
"""Past strings, numbers, and the arrays and objects that hold nothing deeper."""


class TooManyValuesError(Exception):
    """A notebook with more values, outputs excluded, than are decoded."""


def is_large_notebook(path: str) -> bool:
    """Whether a path names a notebook that is not decoded whole."""
    try:
        return path.endswith(".ipynb") and os.stat(path).st_size > SMALL  # noqa: PTH116 - paths are strings here
    except (OSError, ValueError):
        return False


def without_outputs(text: str) -> str:
    """The JSON of a notebook in which blanks stand for the outputs, each character and line at its place.

    Text that is broken inside of an output goes unnoticed. Small notebooks stay as they are.
    Raises TooManyValuesError, and RecursionError as json does.
    """
    if len(text) <= SMALL:
        return text
    pieces = list[str]()
    behind = 0
    while key := OUTPUT_KEY.search(text, behind):
        end = _end_of_value(text, key.end())
        pieces += (text[behind : key.end()], _blanked(text[key.end() : end]))
        behind = end
    slim = "".join([*pieces, text[behind:]])
    if sum(map(slim.count, ",[{")) > MOST_VALUES:
        raise TooManyValuesError
    return slim


def _end_of_value(text: str, start: int) -> int:
    """Where the array or object ends that starts there; the end of the text where it has none."""
    depth, position = 1, start + 1
    while found := UP_TO_BRACKET.match(text, position):
        position = found.end()
        depth += 1 if found["bracket"] in "[{" else -1
        if depth == 0:
            return position
        if depth > DEEPEST:
            raise RecursionError("nested too deeply")
    return len(text)


def _blanked(value: str) -> str:
    """An empty value with as many characters and lines; nothing for one without an end, so that JSON refuses it."""
    if value[-1:] not in {"]", "}"}:
        return ""
    blanks = "\n".join(" " * len(line) for line in value[1:-1].split("\n"))
    return value[0] + blanks + ("]" if value[0] == "[" else "}")
