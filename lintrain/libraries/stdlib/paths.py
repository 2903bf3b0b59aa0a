"""Paths of files, put together from literals and from where the script lies, and files opened for reading."""

from __future__ import annotations

import os.path

from lintrain.interpreter.core.arithmetic import LONGEST
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import attribute_of, function, method, operated
from lintrain.model.location import Location
from lintrain.pipeline.values.files import FilePath, OpenFile
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Absent,
    Bound,
    Constant,
    LibraryObject,
    Value,
    text_of,
)

READING = {"r", "rt", "tr", "rb", "br"}


def path_of(value: Value) -> FilePath | None:
    """The path that a value is, where it is known."""
    if isinstance(value, FilePath):
        return value
    text = text_of(value)
    is_default = isinstance(value, Constant) and value.is_default
    return FilePath(text, is_default, origin=value.origin) if text else None


def joined(parts: list[Value]) -> FilePath | None:
    """The path of these parts one below the other; None where one is not known or all are too long."""
    paths = [path for path in map(path_of, parts) if path is not None]
    if not paths or len(paths) != len(parts) or sum(len(path.text) for path in paths) > LONGEST:
        return None
    return FilePath(os.path.join(*(path.text for path in paths)), any(path.is_default for path in paths))  # noqa: PTH118


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
            return FilePath(folder or ".", value.is_default)
        case "name":
            return Constant(last, value.is_default)
        case "stem":
            return Constant(os.path.splitext(last)[0], value.is_default)  # noqa: PTH122
        case _:
            return Bound(value, name)


@function("os.path.dirname")
def _folder(call: Call) -> Value:
    path = path_of(call.value("p", 0))
    return Constant(os.path.dirname(path.text), path.is_default) if path else UNKNOWN  # noqa: PTH120


@function("os.path.abspath", "os.path.realpath", "os.path.expanduser", "os.path.normpath")
def _same_file(call: Call) -> Value:
    path = path_of(call.value("path", 0))
    return Constant(path.text, path.is_default) if path else UNKNOWN


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
