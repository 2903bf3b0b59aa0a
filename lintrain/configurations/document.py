"""A YAML or JSON file with the location of every key and value, read with ruamel.yaml.

Values are those of YAML 1.1, as PyYAML reads them (`on` is true), with one difference on request: `1e-4` is a number to
OmegaConf and to every tool that converts its settings, and text to PyYAML. Locations count characters, as everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, cast

from lintrain.model.location import Location
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

LARGEST = 64 * 1024
"""Characters: larger files are data, and reading them takes a second."""

MOST_NODES = 20_000
DEEPEST = 40
"""Aliases can make a small text a large tree."""

MOST_KEPT = 64
"""Texts that stay read: the search for files reads each configuration, and its check soon afterwards again."""

NULL = {"", "~", "null", "Null", "NULL"}
TRUE = {each(word) for word in ("yes", "true", "on") for each in (str.lower, str.upper, str.capitalize)}
FALSE = {each(word) for word in ("no", "false", "off") for each in (str.lower, str.upper, str.capitalize)}
INTEGER = lazy_pattern(r"[-+]?(?:0|[1-9][0-9_]*)")
OTHER_NUMBER = lazy_pattern(
    r"[-+]?(?:0[0-9_]+|0b[01_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?|\.(?:inf|Inf|INF))"
    r"|\.(?:nan|NaN|NAN)|\d{4}-\d\d?-\d\d?(?:[Tt ].*)?|=|<<"
)
FLOAT = lazy_pattern(r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+][0-9]+)?")
WITHOUT_POINT = lazy_pattern(r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)[eE][-+]?[0-9]+")


class Unread:
    """A value in an unsupported form."""


UNREAD = Unread()


class NotReadError(Exception):
    """The text is not YAML, or it holds several documents, tags or too much; `line` is where, if that is known."""

    def __init__(self, reason: str, line: int = 1) -> None:
        super().__init__(reason)
        self.line = line


@dataclass(frozen=True, slots=True)
class Scalar:
    """A single value; `is_plain` without quotes, `text` as it is between them."""

    value: object
    location: Location
    text: str
    is_plain: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of a section with its value; `location` is that of both, `is_own` if it is written there (no alias)."""

    key: str
    key_location: Location
    value: Node
    is_own: bool = True

    @property
    def location(self) -> Location:
        """From the start of the key to the end of its value."""
        start, end = self.key_location, self.value.location
        if (end.end_line, end.end_column) < (start.end_line, start.end_column):
            end = start
        return Location(start.path, start.line, start.column, end.end_line, end.end_column)


@dataclass(frozen=True, slots=True)
class Section:
    """Keys with their values, in the order of the file."""

    entries: tuple[Entry, ...]
    location: Location

    def get(self, key: str) -> Node | None:
        """The value of a key, the last one if it is written twice."""
        return next((each.value for each in reversed(self.entries) if each.key == key), None)

    def entry(self, key: str) -> Entry | None:
        """The entry of a key."""
        return next((each for each in reversed(self.entries) if each.key == key), None)

    def text(self, key: str) -> str | None:
        """The value of a key if it is text."""
        match self.get(key):
            case Scalar(value=str() as value):
                return value
            case _:
                return None

    @property
    def keys(self) -> frozenset[str]:
        """All keys."""
        return frozenset(each.key for each in self.entries)


@dataclass(frozen=True, slots=True)
class Items:
    """The items of a list."""

    items: tuple[Node, ...]
    location: Location


Node = Scalar | Section | Items


def read_document(path: str, text: str, *, numbers_without_point: bool = True) -> Node:
    """The content of a file; raises NotReadError."""
    if len(text) > LARGEST:
        raise NotReadError(f"it has more than {LARGEST // 1024} thousand characters")
    # A tab is a blank in JSON and inside brackets; the scanner refuses it, and one blank keeps every column.
    root = _composed(text.replace("\t", " ") if path.endswith(".json") else text)
    if root is None:
        return Scalar(None, Location(path, 1, 1, 1, 1), "", is_plain=True)
    return _Conversion(path, numbers_without_point).node(root, 0)


@lru_cache(maxsize=MOST_KEPT)
def _composed(text: str) -> Any:  # Any: ruamel's nodes have no types
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    class Composer(YAML):
        def official_plug_ins(self) -> Any:
            """None: the library looks for them on the disk, for each text."""
            return []

    composer: Any = Composer(typ="rt", pure=True)
    try:
        try:
            return composer.compose(text)
        except NotImplementedError:
            # ruamel 0.19 cannot keep a comment between a key and its value on the next line; this reader keeps none.
            composer = Composer(typ="safe", pure=True)
            return composer.compose(text)
    except MarkedYAMLError as marked:
        error: Any = marked
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        raise NotReadError(str(error.problem or error.context or "not YAML"), line) from marked
    except (YAMLError, ValueError, RecursionError, AttributeError) as failed:
        raise NotReadError(str(failed).partition("\n")[0] or type(failed).__name__) from failed


def outline(text: str) -> Node | None:
    """The keys and values of a JSON file, all at the same location; None if it is not JSON.

    This takes a hundredth of the time of `read_document`: enough to tell what kind of file it is.
    """
    import json

    try:
        content: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return _outlined(content, Location("", 1, 1, 1, 1))


def _outlined(content: object, at: Location) -> Node:
    if isinstance(content, dict):
        entries = cast("dict[str, object]", content).items()
        return Section(tuple(Entry(key, at, _outlined(value, at)) for key, value in entries), at)
    if isinstance(content, list):
        return Items(tuple(_outlined(each, at) for each in cast("list[object]", content)), at)
    return Scalar(content, at, str(content), is_plain=not isinstance(content, str))


class _Conversion:
    """From ruamel's nodes to ours, with an end to it."""

    def __init__(self, path: str, numbers_without_point: bool) -> None:
        self.path = path
        self.numbers_without_point = numbers_without_point
        self.left = MOST_NODES
        self.seen = set[int]()

    def node(self, node: Any, depth: int) -> Node:
        """One node with all that is below it; raises NotReadError if that is too much."""
        self.left -= 1
        if depth > DEEPEST or self.left < 0:
            raise NotReadError("it holds too many values", node.start_mark.line + 1)
        match type(node).__name__:
            case "MappingNode":
                entries = tuple(self._entries(node, depth))
                return Section(entries, self._around(node, [each.location for each in entries if each.is_own]))
            case "SequenceNode":
                items = tuple(self.node(each, depth + 1) for each in node.value)
                return Items(items, self._around(node, [each.location for each in items]))
            case _:
                return self._scalar(node)

    def _entries(self, node: Any, depth: int) -> Iterator[Entry]:
        for key, value in node.value:
            if str(getattr(key, "tag", "")).endswith(":merge"):
                yield from self._merged(value, depth)
                continue
            if type(key).__name__ != "ScalarNode":
                raise NotReadError("a key of it is a list or a section", key.start_mark.line + 1)
            is_own = (value.start_mark.line, value.start_mark.column) >= (key.end_mark.line, key.end_mark.column)
            yield Entry(str(key.value), self._range(key), self.node(value, depth + 1), is_own)

    def _merged(self, value: Any, depth: int) -> Iterator[Entry]:
        """The entries that `<<: *other` brings in."""
        for each in value.value if type(value).__name__ == "SequenceNode" else [value]:
            section = self.node(each, depth + 1)
            for entry in section.entries if isinstance(section, Section) else ():
                yield Entry(entry.key, entry.key_location, entry.value, is_own=False)

    def _scalar(self, node: Any) -> Scalar:
        text, location, is_plain = str(node.value), self._range(node), node.style is None
        tag = str(node.tag or "")
        if not is_plain or (tag.startswith("!") and tag != "!"):
            return Scalar(text if not tag.startswith("!") else UNREAD, location, text, is_plain=False)
        return Scalar(value_of(text, numbers_without_point=self.numbers_without_point), location, text, is_plain=True)

    def _range(self, node: Any) -> Location:
        start, end = node.start_mark, node.end_mark
        return Location(self.path, start.line + 1, start.column + 1, end.line + 1, end.column + 1)

    def _around(self, node: Any, inner: list[Location]) -> Location:
        """The range of a list or section: one in brackets has its own end, another ends with its last value."""
        whole = self._range(node)
        if node.flow_style or not inner:
            return whole
        last = max((each.end_line, each.end_column) for each in inner)
        first = min((each.line, each.column) for each in [*inner, whole])
        return Location(self.path, *first, *last)


def value_of(text: str, *, numbers_without_point: bool) -> object:
    """The value of a plain scalar; UNREAD for dates, numbers in other bases and the like."""
    if text in NULL:
        return None
    if text in TRUE or text in FALSE:
        return text in TRUE
    if OTHER_NUMBER.fullmatch(text):
        return UNREAD
    if INTEGER.fullmatch(text):
        return int(text.replace("_", "")) if len(text) < 400 else UNREAD
    if FLOAT.fullmatch(text) or (numbers_without_point and WITHOUT_POINT.fullmatch(text)):
        return float(text.replace("_", ""))
    return text


def plain(node: Node) -> object:
    """The content of a node as dictionaries, lists and values."""
    match node:
        case Scalar():
            return node.value
        case Items():
            return [plain(each) for each in node.items]
        case Section():
            return {value_of(each.key, numbers_without_point=False): plain(each.value) for each in node.entries}


def quoted(value: object) -> str:
    """A value as it is written in YAML, and in JSON."""
    import json

    if isinstance(value, str) and re.fullmatch(r"[A-Za-z_][\w./-]*", value):
        is_text = isinstance(value_of(value, numbers_without_point=True), str)
        return value if is_text else json.dumps(value)
    return json.dumps(value, ensure_ascii=False)
