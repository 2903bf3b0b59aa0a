"""Numbers in plain logs and in tables of HTML, as loops, Keras and the Trainer write them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import pairwise

from lintrain.doctor.record import STEPS, Curve, Role, RunRecord, curves_of, numbers

PAIR = re.compile(
    r"""(?<![\w./-])["']?(?P<name>[A-Za-z][\w/.-]*(?:[ ][A-Za-z][\w/.-]*){0,2}?)["']?[ ]{0,2}[:=][ ]{0,4}["']?"""
    r"""(?P<value>[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf(?:inity)?))(?![\w.])""",
    re.IGNORECASE,
)
TENSOR = re.compile(r"(?:[\w.-]+ = )?[\w.-]+(?:/[\w.-]+)+:\d")
"""TensorFlow's name of a variable (`crf_loss/transition:0`): no value of a loss."""
EPOCH = re.compile(r"\bepoch[\s:=#\[(]*(?P<epoch>\d+(?:\.\d+)?)", re.IGNORECASE)
STEP = re.compile(r"\b(?:global[ _])?(?:step|iter(?:ation)?|batch)[\s:=#\[(]*(?P<step>\d+)", re.IGNORECASE)
CLOCK = re.compile(r"^\W*(?:(?P<day>\d{4}-\d\d-\d\d)[T ])?(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d(?:[.,]\d+)?)")
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x08")
LONGEST_LINE = 4000


def read_log(text: str, path: str = "-") -> RunRecord:
    """The run that a plain text tells: numbers by name on its lines, and the traceback at its end."""
    plain = CONTROL.sub("", text)
    rows = list(_log_rows(plain))
    return RunRecord(path, "log", curves_of(_counted(rows), STEPS), log=plain)


def _log_rows(text: str) -> Iterator[dict[str, float]]:
    """A row of numbers for each line that has a loss, a score, a rate or a norm in it."""
    epoch: float | None = None
    for raw in text.split("\n"):
        # A progress bar overwrites its line: what it showed last is what a reader saw.
        line = raw.rstrip("\r").rpartition("\r")[2][:LONGEST_LINE]
        found = [match for match in PAIR.finditer(line) if not TENSOR.fullmatch(match[0])]
        row = {match["name"].strip().lower().replace(" ", "_"): float(match["value"]) for match in found}
        heading = EPOCH.search(line)
        epoch = float(heading["epoch"]) if heading else epoch
        row = {name: value for name, value in row.items() if name.rpartition("_")[2] not in ("epoch", "step", "batch")}
        if not any(Curve(name, ()).role is not Role.OTHER for name in row):
            continue
        row |= {"epoch": epoch} if epoch is not None else {}
        row |= {"step": float(step["step"])} if (step := STEP.search(line)) else {}
        row |= {"time": seconds} if (seconds := _seconds(line)) is not None else {}
        yield row


def _seconds(line: str) -> float | None:
    clock = CLOCK.match(line)
    if clock is None:
        return None
    day = int(clock["day"].rpartition("-")[2]) if clock["day"] else 0
    return ((day * 24 + int(clock["hour"])) * 60 + int(clock["minute"])) * 60 + float(clock["second"].replace(",", "."))


def _counted(rows: list[dict[str, float]]) -> Iterator[dict[str, float]]:
    """The rows with steps that grow: those of a log may begin again in each epoch, or be missing."""
    epochs = [row.get("epoch", 0.0) for row in rows]
    if not any("step" in row for row in rows) and all(before < after for before, after in pairwise(epochs)):
        yield from ({**row, "step": row.get("epoch", 0.0)} for row in rows)
        return
    steps = [row.get("step") for row in rows]
    grows = all(step is not None for step in steps) and all(
        (before or 0) <= (after or 0) for before, after in pairwise(steps)
    )
    for position, row in enumerate(rows):
        yield row if grows else {**row, "step": float(position)}


class Table(HTMLParser):
    """The rows of numbers of a table, by the names in its head: what the Trainer shows in a notebook."""

    def __init__(self) -> None:
        super().__init__()
        self._names: list[str] = []
        self._cells: list[str] = []
        self._rows: list[dict[str, float]] = []
        self._inside = ""

    @classmethod
    def rows_of(cls, text: str) -> list[dict[str, float]]:
        """The rows; none for what is no table of losses."""
        table = cls()
        table.feed(text)
        return [row for row in table._rows if any("loss" in name for name in row)]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - of the base class
        """A cell begins."""
        if tag in ("td", "th"):
            self._inside = tag
            (self._names if tag == "th" else self._cells).append("")
        elif tag == "table":
            self._names = []

    def handle_data(self, data: str) -> None:
        """The text of a cell."""
        if self._inside:
            (self._names if self._inside == "th" else self._cells)[-1] += data.strip().lower().replace(" ", "_")

    def handle_endtag(self, tag: str) -> None:
        """A cell or a row ends."""
        if tag in ("td", "th"):
            self._inside = ""
        elif tag == "tr" and self._cells:
            row = numbers(dict(zip(self._names, self._cells, strict=False)))
            self._rows += [row] if row else []
            self._cells = []
