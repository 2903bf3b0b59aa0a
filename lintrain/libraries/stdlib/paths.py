"""Files: their paths, opening them, and settings read from JSON, TOML and YAML files with a literal path."""

from __future__ import annotations

import os.path
from collections.abc import Callable
from pathlib import Path

from lintrain.configurations.document import Section
from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.arithmetic import LONGEST
from lintrain.interpreter.core.call import Call, escape
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import attribute_of, element_of, function, method, operated
from lintrain.knowledge.settings_files import (
    UNREAD,
    key_section,
    read_json_settings,
    read_toml_settings,
    read_yaml_settings,
)
from lintrain.model.location import Location
from lintrain.pipeline.values.certainty import UNCERTAIN, Default
from lintrain.pipeline.values.columns import Column, Kind
from lintrain.pipeline.values.data import ColumnValues
from lintrain.pipeline.values.loading import FilePath, OpenFile
from lintrain.pipeline.values.python import (
    ABSENT,
    UNKNOWN,
    Absent,
    Bound,
    Constant,
    LibraryObject,
    Literal,
    Mapping,
    Sequence,
    Value,
    constant,
    is_missing,
    text_of,
)
from lintrain.source.reading import CONFIGURED, UnreadableError, read_file
from lintrain.source.source import whole_text

READING = {"r", "rt", "tr", "rb", "br"}


def path_of(value: Value) -> FilePath | None:
    """The path that a value is, where it is known."""
    if isinstance(value, FilePath):
        return value
    text = text_of(value)
    default = value.default if isinstance(value, Constant) else None
    return FilePath(text, default, origin=value.origin) if text else None


def joined(parts: list[Value]) -> FilePath | None:
    """The path of these parts one below the other; None if one is not known or all are too long."""
    paths = [path for path in map(path_of, parts) if path is not None]
    if not paths or len(paths) != len(parts) or sum(len(path.text) for path in paths) > LONGEST:
        return None
    default = next((path.default for path in paths if path.default), None)
    return FilePath(os.path.join(*(path.text for path in paths)), default)  # noqa: PTH118


@function("pathlib.Path", "pathlib.PosixPath", "pathlib.PurePath")
def _path(call: Call) -> Value:
    made = None if call.is_open else joined([argument.value for argument in call.positional])
    return made or LibraryObject(call.path, call.values(), origin=call.location)


@method(FilePath, "joinpath")
def _below(call: Call) -> Value:
    made = None if call.is_open else joined([call.receiver, *(argument.value for argument in call.positional)])
    return made or UNKNOWN


@method(FilePath, "resolve", "absolute", "expanduser")
def _same(call: Call) -> Value:
    # The path stays as it is written: an absolute one would name the machine that lintrain runs on.
    return call.receiver


@operated(FilePath)
def _operate(reader: Reader, left: Value, operator: str, right: Value, location: Location) -> Value | None:
    return joined([left, right]) if operator == "Div" else None


@attribute_of(FilePath)
def _attribute(reader: Reader, value: Value, name: str, location: Location) -> Value | None:
    if not isinstance(value, FilePath):
        return None
    folder, last = os.path.split(value.text)
    match name:
        case "parent":
            return FilePath(folder or ".", value.default)
        case "name":
            return constant(last, value.default)
        case "stem":
            return constant(os.path.splitext(last)[0], value.default)  # noqa: PTH122
        case _:
            return Bound(value, name)


@function("os.path.dirname")
def _folder(call: Call) -> Value:
    path = path_of(call.value("p", 0))
    return constant(os.path.dirname(path.text), path.default) if path else UNKNOWN  # noqa: PTH120


@function("os.path.abspath", "os.path.realpath", "os.path.expanduser", "os.path.normpath")
def _same_file(call: Call) -> Value:
    path = path_of(call.value("path", 0))
    return constant(path.text, path.default) if path else UNKNOWN


@function("builtins.open", "io.open", "codecs.open")
def _open(call: Call) -> Value:
    return _opened(call, path_of(call.value("file", 0)), call.value("mode", 1))


@method(FilePath, "open")
def _open_path(call: Call) -> Value:
    return _opened(call, path_of(call.receiver), call.value("mode", 0))


def _opened(call: Call, path: FilePath | None, mode: Value) -> Value:
    # A file that is written may hold anything afterwards, so only one that is opened for reading is looked
    # into.
    reads = isinstance(mode, Absent) or text_of(mode) in READING
    if path is None or not reads:
        return LibraryObject("builtins.open", call.values(), origin=call.location)
    return OpenFile(path, origin=call.location)


@method(FilePath, "read_text", "read_bytes")
def _text(call: Call) -> Value:
    path = path_of(call.receiver)
    return OpenFile(path, origin=call.location) if path else UNKNOWN


@method(OpenFile, "read")
def _content(call: Call) -> Value:
    return call.receiver


def text(call: Call) -> ColumnValues:
    """Text that is not known."""
    return ColumnValues(Column("", Kind.TEXT), origin=call.location)


def _is_of_text(value: Value) -> bool:
    """Whether a file is open for text."""
    if isinstance(value, OpenFile):
        return True
    if not isinstance(value, LibraryObject) or value.path != "builtins.open":
        return False
    mode = value.arguments.get("mode", value.arguments.get("1", ABSENT))
    return isinstance(mode, Absent) or "b" not in (text_of(mode) or "b")


@method(LibraryObject, "read", "readline")
@method(OpenFile, "readline")
def _read_text(call: Call) -> Value:
    if _is_of_text(call.receiver):
        return text(call)
    escape(call)
    return UNKNOWN


@method(LibraryObject, "readlines")
@method(OpenFile, "readlines")
def _lines(call: Call) -> Value:
    """`open(path).readlines()`."""
    if _is_of_text(call.receiver):
        return Sequence([text(call)], "list", False, True, origin=call.location)
    escape(call)
    return UNKNOWN


@element_of(LibraryObject)
@element_of(OpenFile)
def _line(reader: Reader, value: Value) -> Value:
    """`for line in open(path)`."""
    return ColumnValues(Column("", Kind.TEXT)) if _is_of_text(value) else UNKNOWN


@function("os.path.basename", "os.path.relpath", "os.getcwd")
def _some_path(call: Call) -> Value:
    """The name of a file, where it is not known: text in any case."""
    path = path_of(call.value("p", 0))
    if path is not None and call.path.endswith("basename"):
        return constant(os.path.basename(path.text), path.default)  # noqa: PTH119
    return text(call)


@function("csv.reader")
def _records(call: Call) -> Value:
    """The lines of a CSV file, each a list of texts."""
    line = Sequence([text(call)], "list", False, True)
    return Sequence([line], "list", False, True, origin=call.location)


@function("csv.DictReader")
def _named_records(call: Call) -> Value:
    line = Mapping({}, False, others=text(call))
    return Sequence([line], "list", False, True, origin=call.location)


@function("re.sub")
def _substituted(call: Call) -> Value:
    return text(call)


@function("re.split", "re.findall")
def _parts(call: Call) -> Value:
    return Sequence([text(call)], "list", False, call.path == "re.split", origin=call.location)


@method(ColumnValues, "split", "rsplit", "splitlines", "partition")
def _split(call: Call) -> Value:
    """`line.split()`: pieces of text."""
    held = call.receiver
    if isinstance(held, ColumnValues) and held.column.kind is Kind.TEXT:
        return Sequence([text(call)], "list", False, True, origin=call.location)
    return UNKNOWN


MOST_VALUES = 2_000
"""Values of one file; what holds more is data."""

Read = Callable[[Path], object]


@function("json.load", "json.loads")
def _json(call: Call) -> Value:
    opened = call.value("fp", 0)
    if not isinstance(opened, OpenFile):
        return UNKNOWN
    value, hook = settings_in(call, opened.path, read_json_settings), call.value("object_hook")
    return value if is_missing(hook) else _hooked(call, value, hook)


def _hooked(call: Call, value: Value, hook: Value) -> Value:
    """What `object_hook` makes of each dictionary, the inner ones first."""
    match value:
        case Mapping():
            entries: dict[Literal, Value] = {key: _hooked(call, held, hook) for key, held in value.entries.items()}
            held = Mapping(entries, value.is_complete, origin=value.origin)
            return dispatch.call(call.reader, hook, [held], location=call.location)
        case Sequence():
            return Sequence([_hooked(call, item, hook) for item in value.items], value.kind, value.is_complete)
        case _:
            return value


@function("yaml.safe_load", "yaml.load", "yaml.full_load", "yaml.unsafe_load")
def _yaml(call: Call) -> Value:
    opened = call.value("stream", 0)
    return settings_in(call, opened.path, read_yaml_settings) if isinstance(opened, OpenFile) else UNKNOWN


@function("tomllib.load", "tomllib.loads", "tomli.load", "tomli.loads", "toml.load", "toml.loads")
def _toml(call: Call) -> Value:
    """`tomllib.load(file)`; the older `toml.load` also takes a path."""
    given = call.value("f", 0)
    path = given.path if isinstance(given, OpenFile) else path_of(given) if call.path == "toml.load" else None
    return settings_in(call, path, read_toml_settings) if path is not None else UNKNOWN


def settings_in(call: Call, path: FilePath, read: Read) -> Value:
    """The values in a file; Unknown if it is missing or not understood."""
    content, file = read_near(call.reader, path.text, read)
    # A second mention of the name may be the line that writes the file, so its values can differ when the
    # script runs.
    uncertain = UNCERTAIN if _is_named_twice(call.reader, path.text) else None
    value = as_value(call, content, default=path.default or uncertain)
    if isinstance(value, Mapping) and file is not None and value.is_complete:
        locate_keys(call.reader, value, file)
    return value


def locate_keys(reader: Reader, value: Mapping, file: Path) -> None:
    """Note where the keys of a file are written; it becomes one of the sources, so that findings can be in it.

    A file of another form, such as TOML, is none of them: they are code, or configurations that have an empty tree.
    """
    if not file.name.endswith(CONFIGURED):
        return
    try:
        source = read_file(str(file))
    except UnreadableError:
        return
    reader.record.sources.setdefault(source.path, source)
    if (section := key_section(source.path, source.text)) is not None:
        _locate(value, section)


def _locate(value: Mapping, section: Section) -> None:
    """The same for the keys of a section and of all sections in it."""
    value.written = {each.key: each.location for each in section.entries}
    for each in section.entries:
        inner = value.entries.get(each.key)
        if isinstance(inner, Mapping) and isinstance(each.value, Section):
            _locate(inner, each.value)


def read_near(reader: Reader, text: str, read: Read) -> tuple[object, Path | None]:
    """The content of a file and its path, from the script's folder and those above it, else from the working one."""
    folder = Path(os.path.dirname(reader.source.path))  # noqa: PTH120
    # People start scripts from the folder of the repository, so that is as likely as the script's own.
    for above in (folder, *_up_to_root(folder), Path()):
        content = read(above / text)
        if content is not UNREAD:
            return content, above / text
    return UNREAD, None


MOST_FOLDERS = 8
"""Folders above a script that are looked into."""


def _up_to_root(folder: Path) -> list[Path]:
    """The folders above one, up to that of its repository; none if it is in none."""
    above: list[Path] = []
    for each in (folder, *folder.parents[:MOST_FOLDERS]):
        above.append(each)
        if (each / ".git").exists():
            return above[1:]
    return []


def _is_named_twice(reader: Reader, text: str) -> bool:
    return reader.source.cached(whole_text).count(os.path.basename(text)) > 1  # noqa: PTH119


def as_value(call: Call, content: object, *, default: Default | None) -> Value:
    """The reader's value of a file's content; Unknown if it holds too much."""
    return _value(call, content, default) if _count(content, MOST_VALUES) > 0 else UNKNOWN


def _count(content: object, left: int) -> int:
    """How many more values there may be."""
    left -= 1
    held: list[object] = []
    if isinstance(content, dict):
        held = list(content.values())  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType] - any JSON
    elif isinstance(content, list):
        held = list(content)  # pyright: ignore[reportUnknownArgumentType] - any JSON
    for each in held:
        # Counted before any value is made: a data file of a gigabyte must not become a million objects.
        if left <= 0:
            break
        left = _count(each, left)
    return left


def _value(call: Call, content: object, default: Default | None) -> Value:
    match content:
        case None | bool() | int() | float() | str():
            return constant(content, default, call.location)
        case list():
            items: list[object] = list(content)  # pyright: ignore[reportUnknownArgumentType] - any JSON
            return Sequence([_value(call, item, default) for item in items], origin=call.location)
        case dict():
            held: dict[Literal, object] = dict(content)  # pyright: ignore[reportUnknownArgumentType] - any JSON
            entries = {key: _value(call, item, default) for key, item in held.items()}
            return Mapping(entries, not default, origin=call.location)
        case _:
            return UNKNOWN
