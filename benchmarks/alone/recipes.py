"""The recipes: how each piece of public code is completed so that it runs here, and how its mistake is fixed.

A recipe holds no code of others. It names where the code is (`source`), the rules that are right about it, and its own
lines: what comes before and after, which lines another text replaces in both versions (`edits`: data that is not here,
a size, a device), and which lines the fixed twin replaces (`fixes`). Lines count as in the source. The mistake is at
`lines` of the source, or in lines of the recipe that end with `# <- here`.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("recipes")
SHARED = "shared.toml"
"""What comes before the start of every recipe."""

HERE = re.compile(r" *# <- here$", re.MULTILINE)
"""How a line of a recipe says that the mistake may be reported at it."""


class Half(StrEnum):
    """The half `work` is read to improve the probe; of `measure` only sums are printed."""

    WORK = "work"
    MEASURE = "measure"


@dataclass(frozen=True, slots=True)
class Span:
    """Lines of a file, both ends included."""

    first: int
    last: int
    file: str = ""


@dataclass(frozen=True, slots=True)
class Edit:
    """Lines of the source that another text replaces."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Recipe:
    """One piece of public code, completed.

    `true` are rules that are right about both versions: the code has another mistake, or is pasted to be looked at.
    """

    name: str
    source: str
    rules: frozenset[str]
    true: frozenset[str]
    places: tuple[Span, ...]
    why: str
    start: str
    end: str
    indent: str
    edits: tuple[Edit, ...]
    fixes: tuple[Edit, ...]
    edits_after: tuple[Edit, ...]

    @property
    def half(self) -> Half:
        """The half that the recipe belongs to: the parity of a hash of its name."""
        return half_of(self.name)


def half_of(name: str) -> Half:
    """The half that a name belongs to, whatever the recipe says."""
    return Half.MEASURE if int(hashlib.sha256(name.encode()).hexdigest(), 16) % 2 else Half.WORK


def read_recipes(folder: Path = FOLDER) -> list[Recipe]:
    """Every recipe of the folder, in the order of their names."""
    shared = _read(folder / SHARED)["start"]
    paths = sorted(path for path in folder.glob("*.toml") if path.name != SHARED)
    found = [recipe for path in paths for recipe in _of_file(path, shared)]
    return sorted(found, key=lambda recipe: recipe.name)


def _read(path: Path) -> dict[str, Any]:  # Any: what TOML holds
    return tomllib.loads(path.read_text("utf-8"))


def _of_file(path: Path, shared: str) -> Iterator[Recipe]:
    for name, table in _read(path)["code"].items():
        yield _recipe(f"{path.stem}/{name}", table, shared)


def _recipe(name: str, table: Mapping[str, Any], shared: str) -> Recipe:  # Any: what TOML holds
    return Recipe(
        name,
        table.get("source", ""),
        frozenset(table["rules"].split()),
        frozenset(table.get("true", "").split()),
        tuple(_spans(table.get("lines", ""))),
        table["why"],
        shared + table.get("start", ""),
        table.get("end", ""),
        " " * table.get("indent", 0),
        _edits(table.get("edits", ())),
        _edits(table.get("fixes", ())),
        _edits(table.get("edits_after", table.get("edits", ()))),
    )


def _edits(tables: Sequence[Sequence[str]]) -> tuple[Edit, ...]:
    return tuple(Edit(next(_spans(lines)), text) for lines, text in tables)


def _spans(written: str) -> Iterator[Span]:
    """`4`, `4-6`, `model.py:4-6`; several are separated by spaces."""
    for part in written.split():
        file, _, lines = part.rpartition(":")
        first, _, last = lines.partition("-")
        yield Span(int(first), int(last or first), file)
