"""Writes what many versions of a package offer as one compact table.

A table counts versions by their place in `versions`. `modules` says for each module when a name can be imported:
`{"0-18": "AdamW …"}` are the names of versions 0 up to but not including 18, several such spans joined by commas.
`open` lists the versions in which a module makes names on demand. `callables` holds each signature as
`[[version, items or edits], …]`: the first entry is complete, a later one edits the one before it
(`[[at, removed, [inserted]], …]`, last edit first), `null` means that it does not exist from there on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TypeAlias

from tools.api_tables.exports import Exports
from tools.api_tables.signatures import Items

Json: TypeAlias = "str | int | bool | Sequence[Json] | Mapping[str, Json] | None"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What one version of a package offers."""

    version: str
    modules: Mapping[str, Exports]
    open_endings: tuple[str, ...]
    callables: Mapping[str, Items]


def names_table(snapshots: Sequence[Snapshot]) -> dict[str, Json]:
    """When each name of each module could be imported."""
    modules = sorted({module for snapshot in snapshots for module in snapshot.modules})
    endings = sorted({ending for snapshot in snapshots for ending in snapshot.open_endings})
    return {
        "generated": "by tools/generate_api_tables.py; do not edit",
        "versions": [snapshot.version for snapshot in snapshots],
        "modules": {module: _lives(snapshots, module) for module in modules},
        "exists": {module: _spans([module in each.modules for each in snapshots]) for module in modules},
        "open": {module: spans for module in modules if (spans := _open_spans(snapshots, module))},
        "open_endings": {ending: _spans([ending in each.open_endings for each in snapshots]) for ending in endings},
    }


def signatures_table(snapshots: Sequence[Snapshot]) -> dict[str, Json]:
    """The signature of each callable in every version."""
    names = sorted({name for snapshot in snapshots for name in snapshot.callables})
    return {
        "generated": "by tools/generate_api_tables.py; do not edit",
        "versions": [snapshot.version for snapshot in snapshots],
        "callables": {name: _history([snapshot.callables.get(name) for snapshot in snapshots]) for name in names},
    }


def written(table: Mapping[str, Json]) -> str:
    """A table as JSON text: one line for each entry, so that a change of one is a small change of the file."""
    lines = [f"{json.dumps(key)}: {_section(value)}" for key, value in table.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _section(value: Json) -> str:
    if not isinstance(value, Mapping) or not value:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    entries = (
        f"{json.dumps(key)}:{json.dumps(each, ensure_ascii=False, separators=(',', ':'))}"
        for key, each in value.items()
    )
    return "{\n" + ",\n".join(entries) + "\n}"


def _lives(snapshots: Sequence[Snapshot], module: str) -> dict[str, str]:
    """Names grouped by their spans. A name that is never the package's own (`os`, `torch`) is left out."""
    offered = [snapshot.modules.get(module) for snapshot in snapshots]
    own = {name for each in offered if each is not None for name in each.own if not name.startswith("_")}
    groups: dict[str, list[str]] = {}
    for name in sorted(own):
        spans = _spans([each is not None and (name in each.own or name in each.foreign) for each in offered])
        groups.setdefault(spans, []).append(name)
    return {spans: " ".join(names) for spans, names in sorted(groups.items())}


def _open_spans(snapshots: Sequence[Snapshot], module: str) -> str:
    return _spans([module in each.modules and each.modules[module].is_open for each in snapshots])


def _spans(present: Iterable[bool]) -> str:
    """`[True, True, False, True]` as `"0-2,3-4"`."""
    spans: list[list[int]] = []
    for position, is_there in enumerate(present):
        if is_there and spans and spans[-1][1] == position:
            spans[-1][1] = position + 1
        elif is_there:
            spans.append([position, position + 1])
    return ",".join(f"{since}-{until}" for since, until in spans)


def _history(signatures: Sequence[Items | None]) -> list[Json]:
    history: list[Json] = []
    before: Items | None = None
    for position, items in enumerate(signatures):
        if items != before or (position == 0 and items is not None):
            change: Json = None if items is None else list(items) if before is None else _edits(before, items)
            history.append([position, change])
        before = items
    return history


def _edits(before: Items, after: Items) -> list[Json]:
    steps = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return [
        [start, end - start, list(after[since:until])]
        for kind, start, end, since, until in reversed(steps)
        if kind != "equal"
    ]
