"""The promises of speed, held with a margin for machines that do something else as well."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from benchmarks.many_rows import CASES as MANY_CASES
from benchmarks.measure import Command, Cost, cost_of, paired_ratio
from benchmarks.one_step import CASES, Case
from benchmarks.probe_cost import MOST_TIMES_ONE_STEP, ProbeCost, measure_case
from benchmarks.silence import python_files, report_on
from benchmarks.speed import MOST_TIMES_ASTROID, SCRIPT, Speed, measure_speed

ROUNDS = 5
NOISE = 1.25
"""How far the median of a few runs may stray on a machine that runs other tests at the same time."""


@pytest.fixture(scope="module")
def speed() -> Speed:
    if importlib.util.find_spec("resource") is None or sys.platform == "win32":
        pytest.skip("costs of processes are measured with os.wait4, which this system lacks")
    return measure_speed(SCRIPT, ROUNDS)[0]


@pytest.mark.slow
def test_a_check_takes_little_longer_than_astroids_parse_alone(speed: Speed) -> None:
    assert speed.times_astroid <= MOST_TIMES_ASTROID * NOISE


@pytest.mark.slow
def test_a_check_takes_the_same_time_with_torch_installed(speed: Speed) -> None:
    assert speed.time_with_torch <= 1.1 * NOISE


@pytest.mark.slow
def test_a_check_takes_the_same_memory_with_torch_installed(speed: Speed) -> None:
    assert speed.memory_with_torch <= 1.1


@pytest.mark.slow
def test_a_probe_takes_little_longer_than_one_step_of_the_script(assets: Path) -> None:
    assert measure_case(CASES[0], 1).cpu <= MOST_TIMES_ONE_STEP * NOISE


@pytest.mark.parametrize("case", [*CASES, *MANY_CASES], ids=lambda case: case.name)
def test_what_a_probe_is_compared_with_takes_one_step(case: Case) -> None:
    compile(case.with_one_step, case.name, "exec")


def test_a_script_that_was_changed_is_no_longer_made_to_take_one_step(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("epochs = 2\n")
    with pytest.raises(ValueError, match="`epochs = 3` is there 0 times, not once"):
        Case("changed", script, (("epochs = 3", "epochs = 1"),)).with_one_step  # noqa: B018 - the text is not needed


def test_a_missed_bound_is_told_with_both_numbers() -> None:
    assert Speed(3.14, 1.0, 1.2).misses == [
        "3.14 times astroid.parse, 2.5 at most",
        "1.20 times the memory with torch installed, 1.1 at most",
    ]
    assert Speed(1.0, 1.0, 1.0).misses == []
    script, probe = (Cost(10.0, 5.0, 1.0),), (Cost(14.0, 6.0, 1.0),)
    assert ProbeCost("course", script, probe).misses == ["course: 1.40 times the script's wall seconds, 1.3 at most"]
    assert ProbeCost("rows", script, probe, 0.2).misses[1] == "rows: 1.20 times the script's CPU seconds, 0.2 at most"


def test_a_command_that_fails_is_no_measurement() -> None:
    with pytest.raises(RuntimeError, match="broken ended with 3"):
        cost_of(Command("broken", (sys.executable, "-c", "raise SystemExit(3)")))


def test_a_ratio_is_the_median_of_pairs() -> None:
    mine = [Cost(wall, 1.0, 1.0) for wall in (1.0, 2.0, 30.0)]
    theirs = [Cost(1.0, 1.0, 1.0)] * 3
    assert paired_ratio(mine, theirs) == 2.0


def test_a_package_gives_all_its_files() -> None:
    names = [path.name for path in python_files("lintrain")]
    assert "rulebook.py" in names
    assert "reader.py" in names


def test_a_report_counts_what_a_file_gave(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch\nx = (\n")
    report = report_on(script)
    assert (report.lines, [found.rule for found in report.findings]) == (3, ["syntax-error"])
