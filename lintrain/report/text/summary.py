"""The closing line of a report, and the counts by rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from lintrain.model.level import Level

if TYPE_CHECKING:
    from lintrain.check.result import Reported
    from lintrain.report.text.style import Style


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


def shown_fixes(fixed: Mapping[tuple[str, str], int]) -> Iterator[str]:
    """The number of fixed findings by file and rule."""
    digits = max((len(str(number)) for number in fixed.values()), default=1)
    for path, rules in groupby(sorted(fixed), key=lambda each: each[0]):
        yield f"{path}:"
        yield from (f"  {fixed[path, rule]:>{digits}}  {rule}" for _, rule in rules)


def count(number: int, thing: str) -> str:
    """A number and a noun, in the plural unless the number is 1."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
