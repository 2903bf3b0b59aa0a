"""The settings of the editor, which override the project's configuration."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import field, fields
from difflib import get_close_matches
from typing import Any, ClassVar, cast

from lintrain.startup.lazy_dataclass import dataclass

SECTION = "lintrain"


def camel(name: str) -> str:
    """The name of a field in camel case, as clients write it."""
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


CONFIG: dict[str, Any] = {"extra": "forbid", "alias_generator": camel, "strict": True}
"""The configuration for pydantic, which is imported when a client has settings."""


@dataclass(frozen=True, slots=True)
class ProbeSettings:
    """The options that the code lens passes to `lintrain probe`."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = CONFIG

    python: str | None = None
    arguments: list[str] = field(default_factory=list[str])
    also: list[str] = field(default_factory=list[str])
    timeout: float | None = None
    offline: bool = False


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """The settings; `configuration` is a file that replaces the project's configuration."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = CONFIG

    enable: bool = True
    configuration: str | None = None
    select: list[str] | None = None
    extend_select: list[str] = field(default_factory=list[str])
    ignore: list[str] = field(default_factory=list[str])
    preview: bool | None = None
    fix_all: bool = True
    code_lens: bool = True
    probe: ProbeSettings = field(default_factory=ProbeSettings)


def read_client_settings(given: object) -> tuple[ClientSettings, list[str]]:
    """The settings that a client sends, and their errors; wrong settings are ignored."""
    if not given:
        return ClientSettings(), []
    if not isinstance(given, Mapping):
        return ClientSettings(), [f"the editor's settings `{SECTION}`: must be a table, not `{given}`"]
    from pydantic import TypeAdapter, ValidationError

    # As JSON, since a strict dataclass accepts no Python object but its own instances.
    read: Callable[[str], ClientSettings] = TypeAdapter(ClientSettings).validate_json
    table = {name: value for name, value in cast("Mapping[str, object]", given).items() if value is not None}
    problems: list[str] = []
    while True:
        try:
            return read(json.dumps(table)), problems
        except ValidationError as error:
            for each in error.errors():
                path = [str(part) for part in each["loc"]]
                problems.append(_describe(path, each["type"], each["msg"]))
                table.pop(path[0], None)


def _describe(path: list[str], kind: str, message: str) -> str:
    name = ".".join((SECTION, *path))
    if kind == "unexpected_keyword_argument":
        table = ProbeSettings if len(path) > 1 else ClientSettings
        near = get_close_matches(path[-1], [camel(each.name) for each in fields(table)], n=1, cutoff=0.5)
        return f"the editor's setting `{name}` is unknown" + (f" (did you mean `{near[0]}`?)" if near else "")
    reason = message.replace("Input should be a valid", "must be a").replace("Input should be", "must be")
    reason = reason.replace("must be a array", "must be a list")  # the term of TOML and YAML
    return f"the editor's setting `{name}` {reason}"
