"""What the editor's user sets; it comes on top of the project's configuration."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import field, fields
from difflib import get_close_matches
from typing import Any, ClassVar, cast

from lintrain.startup.lazy_dataclass import dataclass

SECTION = "lintrain"


def camel(name: str) -> str:
    """The name of a field as clients write it."""
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


CONFIG: dict[str, Any] = {"extra": "forbid", "alias_generator": camel, "strict": True}
"""For pydantic, which is loaded when a client has settings."""


@dataclass(frozen=True, slots=True)
class ProbeSettings:
    """How the code lens starts a probe: what `lintrain probe` gets."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = CONFIG

    python: str | None = None
    arguments: list[str] = field(default_factory=list[str])
    also: list[str] = field(default_factory=list[str])
    timeout: float | None = None
    offline: bool = False


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """The settings; `configuration` is a file to read in the stead of the project's own."""

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
    """The settings that a client sends, and what is wrong with them; what is wrong counts as not set."""
    if not given:
        return ClientSettings(), []
    if not isinstance(given, Mapping):
        return ClientSettings(), [f"the editor's settings `{SECTION}`: must be a table, not `{given}`"]
    from pydantic import TypeAdapter, ValidationError

    # As JSON, for of Python's objects a strict dataclass takes its own alone.
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
        return f"the editor's setting `{name}` is unknown" + (f"; nearest: `{near[0]}`" if near else "")
    reason = message.replace("Input should be a valid", "must be a").replace("Input should be", "must be")
    reason = reason.replace("must be a array", "must be a list")  # as TOML, YAML and people say
    return f"the editor's setting `{name}` {reason}"
