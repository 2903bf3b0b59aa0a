"""What a form costs as it is repeated more often, and how fast that grows."""

from __future__ import annotations

import cProfile
import gc
import math
import pstats
import resource
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import lintrain
from tests.fuzz.inputs import Input
from tests.fuzz.trial import OverBudgetError, bounded, rules
from tests.growth.form import Form
from tests.growth.stages import STAGES, Checked

STEEPEST = 1.3
"""The exponent above which a cost counts as growing faster than its input."""
FIRST = 8
LARGEST = 100_000
"""Bytes: SECURITY.md speaks of inputs below this size."""
TOO_LONG = 10.0
"""CPU seconds of one stage: SECURITY.md allows no more for an input of that size."""
ENOUGH = 1.2
"""CPU seconds after which a form is not repeated more often."""
NOISE = 0.15
"""CPU seconds below which a cost says nothing."""
TRIES = 3
PACKAGE = str(Path(lintrain.__file__).parent.parent)


@dataclass(slots=True)
class Costs:
    """The CPU seconds of one stage for each size of a form."""

    stage: str
    points: list[tuple[int, int, float]] = field(default_factory=list[tuple[int, int, float]])
    """Repetitions, bytes, and seconds."""

    @property
    def exponent(self) -> float:
        """The steepest growth over two doublings, of those that take long enough to be seen."""
        return max((_exponent(*window) for window in self._windows()), default=0.0)

    @property
    def is_too_long(self) -> bool:
        """Whether some size took longer than any input may."""
        return any(seconds >= TOO_LONG for _, _, seconds in self.points)

    @property
    def steepest_count(self) -> int:
        """The repetitions at which the growth is steepest."""
        return max(self._windows(), key=lambda window: _exponent(*window))[1][0] if self.points[2:] else 0

    def _windows(self) -> Iterator[tuple[tuple[int, int, float], tuple[int, int, float]]]:
        """The first and last of any three sizes in a row."""
        fixed = self.points[0][2]
        less = [(count, size, max(seconds - fixed, 0.0)) for count, size, seconds in self.points[1:]]
        return ((one, other) for one, other in zip(less, less[2:], strict=False) if other[2] >= NOISE)


def _exponent(one: tuple[int, int, float], other: tuple[int, int, float]) -> float:
    return math.log(other[2] / max(one[2], 1e-4)) / math.log(other[1] / one[1])


def costs_of(form: Form, enough: float = ENOUGH) -> Mapping[str, Costs]:
    """The costs of every stage, for twice as many repetitions each time until they are enough."""
    found: dict[str, Costs] = {}
    empty = len(form.text(0))
    count = 0
    while True:
        text = form.text(count)
        total = 0.0
        for stage, seconds in _seconds(given(form, count)).items():
            found.setdefault(stage, Costs(stage, [(0, 0, 0.0)] if count else [])).points.append(
                (count, max(1, len(text) - empty), seconds)
            )
            total += seconds
        count = max(FIRST, count * 2)
        if total > enough or len(form.text(count)) > LARGEST:
            return found


def given(form: Form, count: int) -> Input:
    """The form as an input."""
    return Input(form.file, form.text(count).encode())


def _seconds(given: Input) -> dict[str, float]:
    """The CPU seconds of each stage, the processes that it starts included; the limit where it takes longer."""
    checked = Checked(given)
    found: dict[str, float] = {}
    for name, stage in STAGES.items():
        if name != "check" and not checked.is_done:
            break
        before = _used()
        try:
            with bounded(TOO_LONG):
                stage(checked)
        except OverBudgetError:
            found[name] = TOO_LONG
            continue
        found[name] = min(_used() - before, TOO_LONG)
    return found


def _used() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def is_steep(costs: Costs) -> bool:
    """Whether a cost grows too fast or is too high."""
    return costs.exponent > STEEPEST or costs.is_too_long


def steep_stages(form: Form, enough: float = ENOUGH) -> dict[str, Costs]:
    """The stages that grow too fast, each time that they are measured: another process may have been in the way."""
    found = costs_of(form, enough)
    for _ in range(TRIES - 1):
        found = _steep(found)
        if not found or any(costs.is_too_long for costs in found.values()):
            break
        again = costs_of(form, enough)
        found = {
            stage: min(costs, again[stage], key=lambda each: each.exponent)
            for stage, costs in found.items()
            if stage in again
        }
    return _steep(found)


def _steep(found: Mapping[str, Costs]) -> dict[str, Costs]:
    """Those that are steep; the check with undefined names only where the one without is not."""
    steep = {stage: costs for stage, costs in found.items() if is_steep(costs)}
    if "check" in steep:
        steep.pop("names", None)
    return steep


def functions_of(form: Form, count: int, stage: str, most: int = 6) -> Sequence[str]:
    """The functions that take the time of a stage, with their share of it."""
    checked = Checked(given(form, count))
    profile = cProfile.Profile()
    try:
        with bounded(2 * TOO_LONG):
            for name, run in STAGES.items():
                if name == stage:
                    profile.enable()
                run(checked)
                if name == stage:
                    break
    except OverBudgetError:
        pass
    profile.disable()
    return list(_lines(pstats.Stats(profile), most))


def _lines(stats: pstats.Stats, most: int) -> Iterator[str]:
    rows: Mapping[tuple[str, int, str], tuple[int, int, float, float, object]] = stats.stats  # type: ignore[attr-defined]
    total = sum(row[2] for row in rows.values()) or 1.0
    own = sorted(rows.items(), key=lambda item: -item[1][2])[:most]
    ours = [item for item in rows.items() if item[0][0].startswith(PACKAGE) and item not in own]
    around = sorted(ours, key=lambda item: -item[1][3])
    around = [item for item in around if item[1][3] < 0.97 * total][:most]
    for (file, line, name), (_, calls, itself, whole, _callers) in [*own, *around]:
        where = file.removeprefix(f"{PACKAGE}/")
        yield f"{whole / total:6.0%} {itself / total:6.0%} {calls:9}  {where}:{line} {name}"


def warm_up(form: Form) -> None:
    """Load what is loaded once, as a run of a whole folder has it behind itself."""
    rules()
    for _ in range(2):
        _seconds(given(form, 2))
    gc.collect()
    gc.freeze()
    gc.set_threshold(300_000, 20, 100)  # as a check has it
