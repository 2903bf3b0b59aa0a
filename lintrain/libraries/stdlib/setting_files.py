"""Settings read from JSON and YAML files with a literal path: the author's text, so they are certain.

They are defaults where the path is one, and where the script names the file elsewhere too: it may write it.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable
from pathlib import Path

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import function
from lintrain.knowledge.setting_files import read_json_settings, read_yaml_settings
from lintrain.knowledge.yaml_values import UNREAD
from lintrain.pipeline.values.files import FilePath, OpenFile
from lintrain.pipeline.values.python import UNKNOWN, Constant, Literal, Mapping, Sequence, Value

MOST_VALUES = 2_000
"""Values of one file; what holds more is data."""

Read = Callable[[Path], object]


@function("json.load", "json.loads")
def _json(call: Call) -> Value:
    opened = call.value("fp", 0)
    return settings_in(call, opened.path, read_json_settings) if isinstance(opened, OpenFile) else UNKNOWN


@function("yaml.safe_load", "yaml.load", "yaml.full_load", "yaml.unsafe_load")
def _yaml(call: Call) -> Value:
    opened = call.value("stream", 0)
    return settings_in(call, opened.path, read_yaml_settings) if isinstance(opened, OpenFile) else UNKNOWN


def settings_in(call: Call, path: FilePath, read: Read) -> Value:
    """The values in a file; Unknown if it is missing or not understood."""
    content = read_near(call.reader, path.text, read)
    # A second mention of the name may be the line that writes the file, so its values can differ when the
    # script runs.
    return as_value(call, content, is_default=path.is_default or _is_named_twice(call.reader, path.text))


def read_near(reader: Reader, text: str, read: Read) -> object:
    """The content of a file, seen from the script's folder, else from where lintrain runs."""
    beside = Path(os.path.dirname(reader.source.path)) / text  # noqa: PTH120
    content = read(beside)
    return content if content is not UNREAD else read(Path(text))


def _is_named_twice(reader: Reader, text: str) -> bool:
    return reader.source.text.count(os.path.basename(text)) > 1  # noqa: PTH119


def as_value(call: Call, content: object, *, is_default: bool) -> Value:
    """The reader's value of a file's content; Unknown where it holds too much."""
    return _value(call, content, is_default) if _count(content, MOST_VALUES) > 0 else UNKNOWN


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


def _value(call: Call, content: object, is_default: bool) -> Value:
    match content:
        case None | bool() | int() | float() | str():
            return Constant(content, is_default, origin=call.location)
        case list():
            items: list[object] = list(content)  # pyright: ignore[reportUnknownArgumentType] - any JSON
            return Sequence([_value(call, item, is_default) for item in items], origin=call.location)
        case dict():
            held: dict[Literal, object] = dict(content)  # pyright: ignore[reportUnknownArgumentType] - any JSON
            entries = {key: _value(call, item, is_default) for key, item in held.items()}
            return Mapping(entries, not is_default, origin=call.location)
        case _:
            return UNKNOWN
