"""The table of fixes: which commit of which repository, where the mistake was and which rule ought to say it.

The column `line` holds one place or several, separated by `;`: a line of `file`, or `path:line` for a place in another
file, since a mistake may be told where the loss is computed or where the loop calls it. `also` holds further rules that
say the same.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

FOLDER = Path(__file__).parent


class Half(StrEnum):
    """One half is worked on; nobody looks at the rows of the other, which only measures."""

    WORK = "work"
    MEASURE = "measure"


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a file as it was before the fix."""

    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Fix:
    """One commit that fixes a mistake; a finding of one of the rules at one of the places reports it."""

    repository: str
    commit: str
    places: tuple[Place, ...]
    rules: frozenset[str]
    half: Half
    kind: str
    why: str

    @property
    def files(self) -> tuple[str, ...]:
        """The files to check, each once."""
        return tuple(dict.fromkeys(place.file for place in self.places))


def half_of(repository: str, commit: str) -> Half:
    """The half that a commit belongs to, whoever writes its row: the parity of a hash."""
    digest = hashlib.sha256(f"{repository}@{commit}".encode()).hexdigest()
    return Half.MEASURE if int(digest, 16) % 2 else Half.WORK


def read_fixes(folder: Path = FOLDER, tables: str = "a-z") -> list[Fix]:
    """The rows of the tables of the folder with these letters; `commits-c.csv` came after the others were worked on."""
    return [fix for path in sorted(folder.glob(f"commits-[{tables}].csv")) for fix in _read_table(path)]


def _read_table(path: Path) -> Iterator[Fix]:
    with path.open(newline="", encoding="utf-8") as table:
        for row in csv.DictReader(table):
            yield _from_row(row)


def _from_row(row: dict[str, str]) -> Fix:
    places = tuple(_place(row["file"], written) for written in row["line"].split(";"))
    rules = frozenset((row["rule"], *filter(None, row.get("also", "").split(";"))))
    half = Half(row["half"])
    return Fix(row["repository"], row["commit"], places, rules, half, row["kind"], row["why"])


def _place(file: str, written: str) -> Place:
    other, _, line = written.rpartition(":")
    return Place(other or file, int(line))
