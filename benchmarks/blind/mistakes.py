"""The sound scripts, and the mistakes that are edits of them, as the folders of `scripts/` hold them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.sight.clones import MEASURE, WORK

SCRIPTS = Path(__file__).parent / "scripts"
TABLE = "edits.toml"


class TableError(Exception):
    """An edit that does not fit its script; the text says which."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """One known mistake in a script that is sound without it.

    `rules` are those whose report names it: none as long as no rule does. `effect` is "fails" or "silent".
    """

    name: str
    script: Path
    line: int
    text: str
    why: str
    effect: str
    rules: frozenset[str]


@dataclass(frozen=True, slots=True)
class Field:
    """The scripts and mistakes of one field.

    `work` are the names of the scripts in that half; `runnable` those that need neither a hub nor a GPU.
    """

    name: str
    scripts: tuple[Path, ...]
    mistakes: tuple[Mistake, ...]
    work: frozenset[str]
    runnable: frozenset[str]

    def half_of(self, script: Path) -> str:
        """The half that a script and its mistakes belong to."""
        return WORK if script.name in self.work else MEASURE


def load_fields() -> tuple[Field, ...]:
    """Every field, in the order of their names."""
    return tuple(_field(folder) for folder in sorted(SCRIPTS.iterdir()) if folder.is_dir())


def _field(folder: Path) -> Field:
    table = tomllib.loads((folder / TABLE).read_text(encoding="utf-8"))
    scripts = tuple(sorted(folder.glob("*.py")))
    mistakes = tuple(_mistake(folder, row) for row in table["mistake"])
    return Field(folder.name, scripts, mistakes, frozenset(table["work"]), frozenset(table["runnable"]))


def _mistake(folder: Path, row: dict[str, object]) -> Mistake:
    script = folder / str(row["base"])
    text = script.read_text(encoding="utf-8")
    line = 0
    for old, new in _edits(row):
        if text.count(old) != 1:
            raise TableError(f"{row['id']}: this text is not there exactly once: {old!r}")
        line = line or text[: text.index(old)].count("\n") + 1
        text = text.replace(old, new)
    rules = row.get("rules", [])
    assert isinstance(rules, list)
    return Mistake(
        name=str(row["id"]),
        script=script,
        line=line,
        text=text,
        why=str(row["why"]),
        effect=str(row["effect"]),
        rules=frozenset(map(str, rules)),
    )


def _edits(row: dict[str, object]) -> Iterator[tuple[str, str]]:
    edits = row.get("edits") or [[row["old"], row["new"]]]
    assert isinstance(edits, list)
    for old, new in edits:
        yield str(old).strip("\n"), str(new).strip("\n")
