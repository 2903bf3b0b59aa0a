"""The promises of speed, held with a margin for machines that do something else as well.

What a probe may take is measured by `tools/dev.py test --more`: its scripts import the libraries, for half a minute.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from benchmarks.many_rows import CASES as MANY_CASES
from benchmarks.measure import Command, Cost, cost_of, paired_ratio
from benchmarks.one_step import CASES, Case
from benchmarks.probe_cost import ProbeCost
from benchmarks.silence import python_files, report_on
from benchmarks.speed.bounds import Bound, conclude
from benchmarks.speed.corpus import read_corpus, sample_of, tree_of
from benchmarks.speed.floor import codes_of
from benchmarks.speed.growth import fitted, linearity, picture
from benchmarks.speed.one_script import MOST_TIMES_ASTROID, SCRIPT, Speed, measure_speed

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


@pytest.mark.parametrize("case", [*CASES, *MANY_CASES], ids=lambda case: case.name)
def test_what_a_probe_is_compared_with_takes_one_step(case: Case) -> None:
    compile(case.with_one_step, case.name, "exec")


def test_a_script_that_was_changed_is_no_longer_made_to_take_one_step(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("epochs = 2\n")
    with pytest.raises(ValueError, match="`epochs = 3` is there 0 times, not once"):
        Case("changed", script, (("epochs = 3", "epochs = 1"),)).with_one_step  # noqa: B018 - the text is not needed


def test_a_missed_bound_is_told_with_both_numbers() -> None:
    assert [str(bound) for bound in Speed(3.14, 1.0, 1.2, 61.0).bounds if bound.is_missed] == [
        "missed: one script against astroid.parse: 3.14 times (at most 1.5)",
        "missed: one script that holds no run: 61.00 ms (at most 60)",
        "missed: with torch installed against without, memory: 1.20 times (at most 1.1)",
    ]
    assert not any(bound.is_missed for bound in Speed(1.0, 1.0, 1.0, 1.0).bounds)
    script, probe = (Cost(10.0, 5.0, 1.0),), (Cost(14.0, 6.0, 1.0),)
    assert ProbeCost("course", script, probe).misses == ["course: 1.40 times the script's wall seconds, 1.3 at most"]
    assert ProbeCost("rows", script, probe, 0.2).misses[1] == "rows: 1.20 times the script's CPU seconds, 0.2 at most"


def test_a_missed_bound_is_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert conclude([Bound("TorchFix", 30.0, least=25), Bound("memory", 390.0, "MB", most=400)]) == 0
    assert conclude([Bound("TorchFix", 24.0, least=25)]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "missed: TorchFix: 24.00 times (at least 25)"


def test_trees_have_about_the_lines_that_are_asked_for_and_samples_are_always_the_same(tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    for number in range(20):
        (code / f"{number:02}.py").write_text("import torch\n" * (10 + number))
    corpus = read_corpus(code)
    assert 380 <= corpus.lines == sum(range(10, 30))
    assert 950 <= tree_of(corpus, 1000, tmp_path / "tree").lines <= 1050
    drawn = sample_of(corpus, 300)
    assert drawn == sample_of(corpus, 300)
    assert drawn != sorted(drawn)


def test_the_floor_reads_the_cells_of_notebooks() -> None:
    cells = [{"cell_type": "markdown", "source": "a b"}, {"cell_type": "code", "source": ["%pip x\n", "y = 1"]}]
    assert codes_of(json.dumps({"cells": cells}).encode()) == ["pass\ny = 1"]
    assert codes_of(b"[") == []


def test_growth_is_linear_where_the_cost_follows_a_line() -> None:
    straight = [(1e3, 1.1), (1e4, 2.0), (1e5, 11.0), (1e6, 101.0)]
    assert linearity(straight) == pytest.approx(1.0)
    assert fitted(straight) == pytest.approx((1.0, 1e-4))
    start, _ = fitted([*straight[:3], (1e6, 140.0)])
    assert start == pytest.approx(1.0, abs=0.2)
    assert linearity([(lines, lines**2) for lines, _ in straight]) < 0.995
    drawn = picture(straight, [(lines, cost / 10) for lines, cost in straight])
    assert drawn.count("<circle") == 8
    assert "1,000,000" in drawn


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
