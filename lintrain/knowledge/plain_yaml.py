"""YAML as settings are written in: nested keys, lists and plain values. Every other file is refused, never misread.

The values are those of YAML 1.1, as PyYAML reads them: `1e-4` without a point is text there, `on` is true.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from lintrain.knowledge import yaml_values
from lintrain.knowledge.yaml_values import UNREAD, NotPlainError
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

KEY = lazy_pattern(
    r"""(?P<key>"[^"\\]*"|'[^']*'|[^\s\[\]{}"'#&*!|>%@`,?:-](?:[^:#]|:(?=\S)|(?<=\S)#)*?)\s*:(?:\s+|$)"""
)
LONGEST_LINE = 5000
"""Characters; finding the key of a longer line takes too long, and settings have none."""

ITEM = lazy_pattern(r"-(?:\s+|$)")
DEEPEST = 24


@dataclass(slots=True)
class _Lines:
    """The lines that are left to read: each with its indentation, without comments."""

    lines: list[tuple[int, str]]
    position: int = 0
    numbers_without_point: bool = field(default=False)

    def peek(self) -> tuple[int, str]:
        """The next line; beyond the last one an empty line with less indentation than any."""
        return self.lines[self.position] if self.position < len(self.lines) else (-1, "")


def read_yaml(text: str, *, numbers_without_point: bool = False) -> object:
    """What a text holds, with UNREAD for a value that is not plain; raises NotPlainError.

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
        code = yaml_values.without_comment(line).rstrip()
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
        key = yaml_values.scalar(found["key"], numbers_without_point=lines.numbers_without_point)
        if key is UNREAD or key == "<<":
            raise NotPlainError
        rest = lines.peek()[1][found.end() :]
        lines.position += 1
        entries[key] = _value(lines, rest, indent, depth)
    return entries


def _value(lines: _Lines, rest: str, indent: int, depth: int) -> object:
    """The value after a key or a dash, or in the lines below it."""
    below, code = lines.peek()
    if rest:
        if rest[0] in "|>&!":
            return _skip(lines, indent)
        if below > indent:
            raise NotPlainError  # a value that goes on in the next line
        return yaml_values.inline(rest, numbers_without_point=lines.numbers_without_point)
    is_list_under_key = below == indent and ITEM.match(code) and not _is_item_of_outer(lines, indent)
    return _block(lines, below, depth + 1) if below > indent or is_list_under_key else None


def _is_item_of_outer(lines: _Lines, indent: int) -> bool:
    """Whether the line before is an item of the list that the next line goes on with."""
    before_indent, before = lines.lines[lines.position - 1]
    return before_indent == indent and ITEM.match(before) is not None


def _skip(lines: _Lines, indent: int) -> object:
    """A value in a form that is not read, with all the lines that belong to it."""
    while lines.peek()[0] > indent:
        lines.position += 1
    return UNREAD
