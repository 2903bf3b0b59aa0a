"""The subset of YAML that settings use: nested keys, lists and plain values. Any other file is rejected, never misread.

The values are those of YAML 1.1, as PyYAML reads them: `1e-4` without a point is text, `on` is true.

The settings files of a script: JSON and plain YAML, with limited size.

YAML values on one line: plain and quoted ones, and lists and mappings in brackets.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path

from lintrain.cache.noted import note
from lintrain.source.reading import read_plain_text
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

KEY = lazy_pattern(
    r"""(?P<key>"[^"\\]*"|'[^']*'|[^\s\[\]{}"'#&*!|>%@`,?:-](?:[^:#]|:(?=\S)|(?<=\S)#)*?)\s*:(?:\s+|$)"""
)
LONGEST_LINE = 5000
"""Characters; finding the key of a longer line takes too long, and settings have no such lines."""

ITEM = lazy_pattern(r"-(?:\s+|$)")
DEEPEST = 24


@dataclass(slots=True)
class _Lines:
    """The remaining lines, each with its indentation, without comments."""

    lines: list[tuple[int, str]]
    position: int = 0
    numbers_without_point: bool = field(default=False)

    def peek(self) -> tuple[int, str]:
        """The next line; after the last one, an empty line with less indentation than any other."""
        return self.lines[self.position] if self.position < len(self.lines) else (-1, "")


def read_yaml(text: str, *, numbers_without_point: bool = False) -> object:
    """The content of a text, with UNREAD for a value that is not plain; raises NotPlainError.

    OmegaConf reads `1e-4` as a number: `numbers_without_point`.
    """
    lines = _Lines(list(_split(text)), numbers_without_point=numbers_without_point)
    if not lines.lines:
        return None
    value = _block(lines, lines.peek()[0], 0)
    if lines.position < len(lines.lines):
        raise NotPlainError
    return value


def _split(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines()):
        if len(line) > LONGEST_LINE:
            raise NotPlainError
        code = without_comment(line).rstrip()
        if not code or (code == "---" and not number):
            continue
        if "\t" in line or line.startswith(("---", "...", "%")):
            raise NotPlainError
        yield len(code) - len(code.lstrip()), code.lstrip()


def _block(lines: _Lines, indent: int, depth: int) -> object:
    if depth > DEEPEST:
        raise NotPlainError
    _, code = lines.peek()
    if ITEM.match(code):
        return _list(lines, indent, depth)
    if KEY.match(code):
        return _mapping(lines, indent, depth)
    raise NotPlainError


def _list(lines: _Lines, indent: int, depth: int) -> list[object]:
    items: list[object] = []
    while lines.peek()[0] == indent and (mark := ITEM.match(lines.peek()[1])):
        rest = lines.peek()[1][mark.end() :]
        if ITEM.match(rest) or KEY.match(rest):
            inner = indent + mark.end()
            lines.lines[lines.position] = (inner, rest)
            items.append(_block(lines, inner, depth + 1))
        else:
            lines.position += 1
            items.append(_value(lines, rest, indent, depth))
    return items


def _mapping(lines: _Lines, indent: int, depth: int) -> dict[object, object]:
    entries: dict[object, object] = {}
    while lines.peek()[0] == indent and (found := KEY.match(lines.peek()[1])):
        key = scalar(found["key"], numbers_without_point=lines.numbers_without_point)
        if key is UNREAD or key == "<<":
            raise NotPlainError
        rest = lines.peek()[1][found.end() :]
        lines.position += 1
        entries[key] = _value(lines, rest, indent, depth)
    return entries


def _value(lines: _Lines, rest: str, indent: int, depth: int) -> object:
    """The value after a key or a dash, or on the lines below it."""
    below, code = lines.peek()
    if rest:
        if rest[0] in "|>&!":
            return _skip(lines, indent)
        if below > indent:
            raise NotPlainError  # a value that continues on the next line
        return inline(rest, numbers_without_point=lines.numbers_without_point)
    is_list_under_key = below == indent and ITEM.match(code) and not _is_item_of_outer(lines, indent)
    return _block(lines, below, depth + 1) if below > indent or is_list_under_key else None


def _is_item_of_outer(lines: _Lines, indent: int) -> bool:
    """Whether the line before is an item of the list that the next line continues."""
    before_indent, before = lines.lines[lines.position - 1]
    return before_indent == indent and ITEM.match(before) is not None


def _skip(lines: _Lines, indent: int) -> object:
    """A value in an unsupported form, with all of its lines."""
    while lines.peek()[0] > indent:
        lines.position += 1
    return UNREAD


LARGEST = 256 * 1024
"""Bytes: larger files are data."""


def read_json_settings(path: Path) -> object:
    """The content of a JSON file; UNREAD if it is missing, too large or not JSON."""
    text = _text(path)
    try:
        return UNREAD if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return UNREAD


def read_yaml_settings(path: Path, *, numbers_without_point: bool = False) -> object:
    """The content of a YAML file; UNREAD if it is missing, too large, or not plain settings."""
    text = _text(path)
    try:
        return UNREAD if text is None else read_yaml(text, numbers_without_point=numbers_without_point)
    except (NotPlainError, ValueError, RecursionError):
        return UNREAD


def _text(path: Path) -> str | None:
    note(path)
    try:
        return read_plain_text(path, LARGEST)
    except (OSError, ValueError):
        return None


NULL = {"", "~", "null", "Null", "NULL"}
TRUE = {f(word) for word in ("yes", "true", "on") for f in (str.lower, str.upper, str.capitalize)}
FALSE = {f(word) for word in ("no", "false", "off") for f in (str.lower, str.upper, str.capitalize)}
INTEGER = lazy_pattern(r"[-+]?(?:0|[1-9][0-9_]*)")
OTHER_NUMBER = lazy_pattern(
    r"[-+]?(?:0[0-9_]+|0b[01_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?|\.(?:inf|Inf|INF))"
    r"|\.(?:nan|NaN|NAN)|\d{4}-\d\d?-\d\d?(?:[Tt ].*)?|=|<<"
)
FLOAT = lazy_pattern(r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+][0-9]+)?")
WITHOUT_POINT = lazy_pattern(r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)[eE][-+]?[0-9]+")
COMMENT = lazy_pattern(r"""(?:^|\s)#.*|"(?:\\.|[^"\\])*"|(?<![\w)])'[^']*'""")
PART = lazy_pattern(r"""\s*("[^"\\]*"|'[^']*'|[^\[\]{},"'#&*!|>%@`\s](?:[^\[\]{},:"'#]|:(?=[^\s,\[\]{}])|(?<=\S)')*)""")


class NotPlainError(Exception):
    """The text uses more of YAML than is supported."""


class Unread:
    """A value in an unsupported form."""


UNREAD = Unread()


def without_comment(line: str) -> str:
    """A line up to its comment."""
    return COMMENT.sub(lambda found: "" if found[0].lstrip().startswith("#") else found[0], line)


def inline(text: str, *, numbers_without_point: bool) -> object:
    """The value of a whole line or the rest of one; raises NotPlainError."""
    if text[0] in "[{":
        value, end = _flow(text, 0, numbers_without_point, 0)
        if text[end:].strip():
            raise NotPlainError
        return value
    return scalar(text, numbers_without_point=numbers_without_point)


def scalar(text: str, *, numbers_without_point: bool) -> object:
    """A single value; UNREAD for dates, numbers in other bases and the like; raises NotPlainError."""
    if text[:1] in {'"', "'"}:
        if len(text) < 2 or text[-1] != text[0] or text[0] in text[1:-1] or "\\" in text:
            raise NotPlainError
        return text[1:-1]
    if text[:1] and (text[0] in "&*!|>%@`,[]{}?" or ": " in text or text.endswith(":") or text.startswith("- ")):
        raise NotPlainError
    if text in NULL:
        return None
    if text in TRUE or text in FALSE:
        return text in TRUE
    if OTHER_NUMBER.fullmatch(text):
        return UNREAD
    return _number(text, numbers_without_point)


def _number(text: str, numbers_without_point: bool) -> int | float | str:
    if INTEGER.fullmatch(text):
        return int(text.replace("_", ""))
    if FLOAT.fullmatch(text) or (numbers_without_point and WITHOUT_POINT.fullmatch(text)):
        return float(text.replace("_", ""))
    return text


def _flow(text: str, position: int, loose: bool, depth: int) -> tuple[object, int]:
    """The list or mapping in brackets that starts here, and where it ends."""
    if depth > 8:
        raise NotPlainError
    is_list, closing = text[position] == "[", "]" if text[position] == "[" else "}"
    items: list[object] = []
    entries: dict[object, object] = {}
    position = _blank(text, position + 1)
    while not text.startswith(closing, position):
        value, position = _flow_part(text, position, loose, depth)
        if not is_list:
            if not text.startswith(":", position) or isinstance(value, list | dict):
                raise NotPlainError
            entries[value], position = _flow_part(text, position + 1, loose, depth)
        else:
            items.append(value)
        if text.startswith(",", position):
            position = _blank(text, position + 1)
        elif not text.startswith(closing, position):
            raise NotPlainError
    return (items if is_list else entries), position + 1


def _flow_part(text: str, position: int, loose: bool, depth: int) -> tuple[object, int]:
    position = _blank(text, position)
    if text.startswith(("[", "{"), position):
        value, position = _flow(text, position, loose, depth + 1)
        return value, _blank(text, position)
    found = PART.match(text, position)
    if found is None:
        raise NotPlainError
    return scalar(found[1].rstrip(), numbers_without_point=loose), _blank(text, found.end())


def _blank(text: str, position: int) -> int:
    while text.startswith(" ", position):
        position += 1
    return position
