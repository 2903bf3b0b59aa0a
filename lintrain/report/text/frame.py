"""The parts of a report in a terminal: the code frame of a finding, the closing line, and the counts by rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from lintrain.model.level import Level
from lintrain.model.location import Location
from lintrain.report.text.style import ACCENT, Style, clip, columns, printable, window
from lintrain.source.source import FindSource
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.text import shown

if TYPE_CHECKING:
    from lintrain.check.result import Reported
    from lintrain.model.finding import Finding
    from lintrain.rulebook import RuleFile


LEAST_CODE = 28
"""Columns that code needs next to a note; with less room the note goes below it."""

GAP = 3

LEAST_SHOWN = 0.001
"""CPU seconds that a rule needs for a line of its own among the timings."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of code with its notes."""

    group: str
    label: str
    code: str
    location: Location
    notes: tuple[str, ...]
    is_finding: bool
    level: Level

    @property
    def span(self) -> tuple[int, int]:
        """The start and end of the location in the code as shown, with tabs expanded."""
        end = self.location.end_column - 1 if self.location.end_line == self.location.line else len(self.code.rstrip())
        return len(printable(self.code[: self.location.column - 1])), len(printable(self.code[:end]))


def gutter_of(finding: Finding, find_source: FindSource) -> int:
    """The width of the line numbers of a finding."""
    return max((len(row.label) for row in rows_of(finding, find_source)), default=2)


def rows_of(finding: Finding, find_source: FindSource) -> list[Row]:
    """The lines to show in order; lines of other files come first."""
    notes: dict[tuple[bool, str, int], list[tuple[Location, str]]] = {}
    for reason in finding.related:
        same_file = reason.location.path == finding.location.path
        notes.setdefault((same_file, reason.location.path, reason.location.line), []).append(
            (reason.location, reason.note)
        )
    notes.setdefault((True, finding.location.path, finding.location.line), [])
    rows = (_row(finding, key[1], key[2], notes[key], find_source) for key in sorted(notes))
    return [row for row in rows if row]


def _row(
    finding: Finding, path: str, line: int, notes: list[tuple[Location, str]], find_source: FindSource
) -> Row | None:
    source = find_source(path)
    if source is None or not 0 < line <= len(source.lines):
        return None
    is_finding = (path, line) == (finding.location.path, finding.location.line)
    location = finding.location if is_finding else notes[0][0]
    at = source.locate(location)
    group = "" if path == finding.location.path else path
    cell = f"cell {at.cell}" if at.cell is not None else ""
    texts = tuple(dict.fromkeys(note for _, note in notes if note))
    above = " ".join(filter(None, (group, cell)))
    return Row(above, str(at.line), source.shown_line(line), location, texts, is_finding, finding.level)


def frame(finding: Finding, find_source: FindSource, style: Style) -> Iterator[str]:
    """The lines of the frame; none if the source is not available."""
    rows = rows_of(finding, find_source)
    gutter = max((len(row.label) for row in rows), default=2)
    if not rows:
        return
    bar = style.paint(style.bar, ACCENT, bold=True)
    yield f"{' ' * gutter} {bar}"
    room = style.width - gutter - 3
    alongside = _code_room(rows, room)
    previous = rows[0].group if len({row.group for row in rows}) == 1 else None
    for row in rows:
        if row.group != previous:
            yield f"{' ' * gutter} {bar} {style.paint(shown(row.group or row.location.path), dim=True)}"
            previous = row.group
        for label, text in _lines(row, room, alongside, style):
            yield f"{style.paint(label.rjust(gutter), 'blue', bold=True)} {bar} {text}".rstrip()


def _code_room(rows: list[Row], room: int) -> int:
    """The columns for code next to its note; 0 if notes go below."""
    noted = [row for row in rows if row.notes]
    longest = max((columns(note) for row in noted for note in row.notes), default=0)
    code = max((columns(printable(row.code)) for row in noted), default=0)
    left = room - longest - GAP
    return min(code, left) if left >= min(code, LEAST_CODE) else 0


def _lines(row: Row, room: int, alongside: int, style: Style) -> Iterator[tuple[str, str]]:
    start, end = row.span
    limit = alongside if row.notes and alongside else room
    code, moved = window(printable(row.code), start, end if row.is_finding else start + 1, limit)
    notes = [printable(note) for note in row.notes]
    if notes and alongside:
        yield row.label, code + " " * (alongside - columns(code) + GAP) + style.paint(notes[0], ACCENT)
    else:
        yield row.label, code
    if row.is_finding:
        yield "", _carets(row, code, start - moved, end - moved, style)
    for note in notes[1:] if alongside else notes:
        indent = " " * (alongside + GAP if alongside else columns(code[: max(start - moved, 0)]))
        yield "", indent + style.paint(note if alongside else clip(note, room - len(indent)), ACCENT)


def _carets(row: Row, code: str, start: int, end: int, style: Style) -> str:
    shown = min(end, len(code))
    carets = "^" * max(1, columns(code[start:shown]))
    tail = "" if row.location.end_line == row.location.line else " (continues below)"
    return " " * columns(code[:start]) + style.level(row.level, carets) + tail


def summary(reported: Sequence[Reported], files: int, fixed: int = 0) -> str:
    """The number of findings by level, of files, of fixable findings, and of findings `fixed` now."""
    done = f"{count(fixed, 'finding')} fixed; " if fixed else ""
    if not reported:
        return f"{done}no findings {'left ' if fixed else ''}in {count(files, 'file')}"
    levels = Counter(one.finding.level for one in reported)
    parts = [count(levels[level], level.value) for level in Level if levels[level]]
    touched = len({one.finding.location.path for one in reported})
    where = count(touched, "file") if touched == files else f"{touched} of {count(files, 'file')}"
    return f"{done}{count(len(reported), 'finding')} ({', '.join(parts)}) in {where}{_fixable(reported)}"


def _fixable(reported: Sequence[Reported]) -> str:
    safe = sum(1 for one in reported if one.fix and one.fix.safe)
    unsafe = sum(1 for one in reported if one.fix and not one.fix.safe)
    parts = [f"{safe} with `--fix`"] if safe else []
    if unsafe:
        parts.append(f"{unsafe} with `--fix --unsafe-fixes`")
    return f"; fixable: {', '.join(parts)}" if parts else ""


def statistics(reported: Sequence[Reported], style: Style) -> Iterator[str]:
    """A line per rule with its count, level and name; the most frequent first."""
    counts = Counter((one.finding.rule, one.finding.level) for one in reported)
    digits = max((len(str(number)) for number in counts.values()), default=1)
    for (rule, level), number in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        yield f"{number:>{digits}}  {style.level(level, f'{level.value:<7}')}  {rule}"


def statistics_json(reported: Sequence[Reported]) -> str:
    """The counts as JSON; `fixable` is the number of findings with a fix, safe or unsafe."""
    counts = Counter((one.finding.rule, one.finding.level) for one in reported)
    fixable = Counter((one.finding.rule, one.finding.level) for one in reported if one.fix)
    entries = [
        {"rule": key[0], "level": key[1].value, "count": number, "fixable": fixable[key]}
        for key, number in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
    import json

    return json.dumps(entries, indent=2)


def folder_counts(reported: Sequence[Reported]) -> dict[str, Counter[Level]]:
    """The number of findings by level in the files of each folder, the most findings first."""
    counts: dict[str, Counter[Level]] = {}
    for one in reported:
        counts.setdefault(str(Path(one.finding.location.path).parent), Counter())[one.finding.level] += 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1].total(), item[0])))


def folder_statistics(reported: Sequence[Reported], style: Style) -> Iterator[str]:
    """A line per folder with its counts by level; the most findings first."""
    counts = folder_counts(reported)
    digits = max((len(str(each.total())) for each in counts.values()), default=1)
    for folder, levels in counts.items():
        parts = (style.level(level, count(levels[level], level.value)) for level in Level if levels[level])
        yield f"{levels.total():>{digits}}  {shown(folder)}  ({', '.join(parts)})"


def folder_statistics_json(reported: Sequence[Reported]) -> str:
    """The counts by folder as JSON."""
    import json

    entries = [
        {"folder": folder, "count": levels.total(), **{level.value: levels[level] for level in Level}}
        for folder, levels in folder_counts(reported).items()
    ]
    return json.dumps(entries, indent=2)


def shown_fixes(fixed: Mapping[tuple[str, str], int]) -> Iterator[str]:
    """The number of fixed findings by file and rule."""
    digits = max((len(str(number)) for number in fixed.values()), default=1)
    for path, rules in groupby(sorted(fixed), key=lambda each: each[0]):
        yield f"{path}:"
        yield from (f"  {fixed[path, rule]:>{digits}}  {rule}" for _, rule in rules)


def count(number: int, thing: str) -> str:
    """A number and a noun, in the plural unless the number is 1."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def timings(by_file: Mapping[str, Mapping[str, float]], rules: Sequence[RuleFile], *, every: bool) -> Iterator[str]:
    """A line for each part of a check with its CPU time in all and in its slowest file; the slowest part first.

    Rules that took less than a millisecond share a line, unless `every` one is asked for.
    """
    from lintrain.check.one_file import RULE_SECONDS, SECONDS

    parts: dict[str, list[tuple[float, str]]] = {rule.name: [] for rule in rules if rule.reads_text}
    for path, seconds in by_file.items():
        for part, spent in seconds.items():
            parts.setdefault(part, []).append((spent, path))
    totals = {part: sum(spent for spent, _ in found) for part, found in parts.items()}
    whole = sum(totals.values())
    yield f"{count(len(by_file), 'file')} took {whole:.2f} s of CPU time; a rule may take {RULE_SECONDS:g} s of the"
    yield f"{SECONDS:g} s of a file. In all, its share, and in the slowest file:"
    listed = [part for part, total in totals.items() if every or total >= LEAST_SHOWN]
    for part in sorted(listed, key=lambda each: (-totals[each], each)):
        slowest, path = max(parts[part], default=(0.0, ""))
        share = totals[part] / whole if whole else 0.0
        yield f"{totals[part]:8.3f} s {share:4.0%} {slowest:7.3f} s  {part}{f'  {shown(path)}' if path else ''}"
    if quick := len(totals) - len(listed):
        yield f"{count(quick, 'other rule')} took less than a millisecond each; `--verbose` lists all"
