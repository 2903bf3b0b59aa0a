"""The effective settings as TOML."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import cast

from lintrain.check.selection import Selection
from lintrain.settings.settings import Settings


def settings_text(settings: Settings, selection: Selection) -> str:
    """The settings as TOML, with their file and the selected rules as comments."""
    lines = [f"# from {settings.file}" if settings.file else "# no configuration file, defaults only"]
    tables: list[str] = []
    for field in fields(settings):
        if field.name in ("root", "file"):
            continue
        key, value = field.name.replace("_", "-"), getattr(settings, field.name)
        if isinstance(value, Mapping):
            table = cast(Mapping[str, object], value)
            tables.extend(["", f"[{key}]", *(f"{_toml(name)} = {_toml(item)}" for name, item in table.items())])
        elif value is not None:
            lines.append(f"{key} = {_toml(value)}")
    rules = "".join(f"\n#   {name}" for name in sorted(selection.names))
    return "\n".join([*lines, *tables, "", f"# selected rules:{rules}", ""])


def _toml(value: object) -> str:
    """A value as TOML; its strings, lists and booleans are written as in JSON."""
    return json.dumps(value, ensure_ascii=False)
