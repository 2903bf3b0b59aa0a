"""The table of a run: for each operator and half, the places and the share that is reported."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.planted.planting import Operator
from benchmarks.sight.clones import MEASURE, WORK


@dataclass(frozen=True, slots=True)
class Row:
    """One planted mistake as plain data: the rules that name it, other new findings, and how many vanished."""

    operator: str
    half: str
    place: str
    named: tuple[str, ...]
    others: tuple[str, ...]
    vanished: int
    is_exhausted: bool

    @property
    def is_reported(self) -> bool:
        """Whether a rule that may name the mistake does."""
        return bool(self.named)

    def plain(self) -> dict[str, Any]:  # Any: what JSON holds
        """The row as one line of JSON."""
        return asdict(self)


def table(rows: Sequence[Row], operators: Sequence[Operator]) -> str:
    """The table in Markdown: operators with most places first, then all of them together."""
    lines = ["| operator | planted | work | measure | other findings |", "|---|---|---|---|---|"]
    by_operator: dict[str, list[Row]] = {}
    for row in rows:
        by_operator.setdefault(row.operator, []).append(row)
    meanings = {operator.name: operator.meaning for operator in operators}
    for name, held in sorted(by_operator.items(), key=lambda item: (-len(item[1]), item[0])):
        lines.append(f"| `{name}` | {meanings[name]} | {_cells(held)} |")
    lines.append(f"| all | {len(by_operator)} operators | {_cells(rows)} |")
    return "\n".join(lines)


def _cells(rows: Sequence[Row]) -> str:
    return " | ".join((*_halves(rows), str(sum(bool(row.others) for row in rows))))


def _halves(rows: Sequence[Row]) -> Iterator[str]:
    for half in (WORK, MEASURE):
        held = [row for row in rows if row.half == half]
        reported = sum(row.is_reported for row in held)
        yield f"{reported} of {len(held)} ({reported / len(held):.0%})" if held else "-"
