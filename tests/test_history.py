"""The benchmark of fixes in history tells a mistake that was reported and mended from one that was not."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchmarks.history.__main__ import Sums, as_json, as_tables, holds, missed, sums_of
from benchmarks.history.judging import MOST_IMPORTERS, Outcome, importers, judge
from benchmarks.history.nearness import is_near, line_after
from benchmarks.history.table import Fix, Half, Place, half_of, read_fixes

NAME = "someone/digits"
LOOP = """\
import torch
from torch import nn

from shapes import CLASSES

torch.manual_seed(0)
model = nn.Linear(784, CLASSES)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
images, targets = torch.randn(64, 784), torch.randint(0, CLASSES, (64,))
for epoch in range(3):
    loss = nn.functional.cross_entropy(model(images), targets)
    loss.backward()
    optimizer.step()
"""
MENDED = LOOP.replace("    loss.backward()", "    optimizer.zero_grad()\n    loss.backward()")
RENAMED = LOOP.replace("epoch", "round_of_training")
PLACE = 12
REST = (Half.WORK, "loop", "gradients are never cleared")


def git(folder: Path, *command: str) -> str:
    named = ("-c", "user.name=someone", "-c", "user.email=someone@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", "-C", str(folder), *named, *command], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(folder: Path, **files: str) -> str:
    for name, content in files.items():
        (folder / f"{name}.py").write_text(content)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "a change")
    return git(folder, "rev-parse", "HEAD")[:12]


@pytest.fixture
def clones(tmp_path: Path) -> Path:
    """A folder of clones with one repository, whose training loop never clears its gradients."""
    folder = tmp_path / "clones" / NAME
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    (folder / "weights.bin").write_bytes(bytes(2048))
    commit(folder, train=LOOP, shapes="CLASSES = 10\n")
    return tmp_path / "clones"


def fix_of(sha: str, *, line: int = PLACE, file: str = "train.py", rule: str = "missing-zero-grad") -> Fix:
    return Fix(NAME, sha, (Place(file, line),), frozenset({rule}), *REST)


def test_a_mistake_that_a_commit_mends_is_reported_before_and_not_after(clones: Path) -> None:
    sha = commit(clones / NAME, train=MENDED)
    outcome = judge(fix_of(sha), clones)
    assert (outcome.reported, outcome.silent, outcome.trouble) == (True, True, "")


def test_a_mistake_that_stays_is_still_reported_after(clones: Path) -> None:
    sha = commit(clones / NAME, train=RENAMED)
    outcome = judge(fix_of(sha), clones)
    assert (outcome.reported, outcome.silent) == (True, False)


def test_a_finding_elsewhere_does_not_report_the_mistake(clones: Path) -> None:
    sha = commit(clones / NAME, train=MENDED)
    assert not judge(fix_of(sha, line=2), clones).reported


def test_a_finding_of_another_rule_does_not_report_the_mistake(clones: Path) -> None:
    sha = commit(clones / NAME, train=MENDED)
    assert not judge(fix_of(sha, rule="missing-step"), clones).reported


def test_a_place_may_be_in_another_file_than_the_mended_one(clones: Path) -> None:
    sha = commit(clones / NAME, train=MENDED)
    fix = Fix(NAME, sha, (Place("shapes.py", 1), Place("train.py", PLACE)), frozenset({"missing-zero-grad"}), *REST)
    assert judge(fix, clones).reported


def test_a_missing_clone_is_a_trouble_and_no_success(tmp_path: Path) -> None:
    outcome = judge(fix_of("0" * 12), tmp_path)
    assert (outcome.reported, outcome.silent) == (False, False)
    assert "no clone" in outcome.trouble


def test_a_clone_without_the_commit_is_a_trouble(clones: Path) -> None:
    assert judge(fix_of("0" * 12), clones).trouble


@pytest.mark.parametrize(
    ("place", "line", "near"),
    [(1, 4, True), (1, 5, False), (8, 13, True), (14, 20, True), (14, 21, False)],
)
def test_near_is_three_lines_off_or_in_the_same_loop_or_statement(place: int, line: int, near: bool) -> None:
    source = "\n" * 6 + "for row in rows:\n" + "    use(row)\n" * 6 + "load(\n" + "    1,\n" * 5 + ")\n" + "\n" * 5
    assert is_near(source, place, line) is near


def test_near_needs_no_code_that_parses() -> None:
    assert is_near("print 'old'\n", 1, 4)
    assert not is_near("print 'old'\n", 1, 5)


@pytest.mark.parametrize(("line", "moved"), [(1, 1), (2, 3), (3, 4), (4, 5)])
def test_a_line_is_found_again_after_the_fix(line: int, moved: int) -> None:
    assert line_after("a\nb\nc\nd\n", "a\nnew\nb\nother\nd\n", line) == moved


def test_the_table_names_the_half_that_the_hash_gives() -> None:
    fixes = read_fixes()
    assert fixes
    assert [fix for fix in fixes if fix.half is not half_of(fix.repository, fix.commit)] == []


def test_no_commit_is_counted_twice() -> None:
    commits = [fix.commit for fix in read_fixes()]
    assert len(commits) == len(set(commits))


def test_tables_are_chosen_by_their_letters() -> None:
    everything, first, last = read_fixes(), read_fixes(tables="ab"), read_fixes(tables="c")
    assert len(first) + len(last) == len(everything)
    assert {fix.repository for fix in first}.isdisjoint(fix.repository for fix in last)


def test_a_row_may_have_several_places_and_rules(tmp_path: Path) -> None:
    (tmp_path / "commits-a.csv").write_text(
        "repository,commit,file,line,rule,half,kind,why,also\n"
        "someone/digits,0123456789ab,train.py,4;lib/loop.py:7,reused-graph,work,graph,a reason,freed-graph;lost-graph\n"
    )
    (fix,) = read_fixes(tmp_path)
    assert fix.places == (Place("train.py", 4), Place("lib/loop.py", 7))
    assert fix.files == ("train.py", "lib/loop.py")
    assert fix.rules == {"reused-graph", "freed-graph", "lost-graph"}


def test_only_what_is_wrong_is_listed() -> None:
    found = Outcome(fix_of("a" * 12), reported=True, silent=True)
    lost = Outcome(fix_of("b" * 12), reported=False, silent=True)
    told = missed([found, lost])
    assert told == [f"{NAME}@{'b' * 12} train.py:{PLACE}: missing-zero-grad: not reported: gradients are never cleared"]


def test_the_measuring_half_is_printed_as_sums_only() -> None:
    sums = {"work": sums_of([Outcome(fix_of("a" * 12), reported=True, silent=True)]), "measure": Sums(4, 3, 4)}
    work = [Outcome(fix_of("a" * 12), reported=True, silent=True)]
    assert as_tables(sums, work).splitlines()[2].split() == ["measure", "4", "3", "(", "75.0%)", "4", "(100.0%)"]
    assert as_json(sums, work).count('"repository"') == 1


@pytest.mark.parametrize(
    ("work", "measure", "kept"),
    [
        (Sums(100, 80, 100), Sums(100, 78, 99), True),
        (Sums(100, 80, 100), Sums(100, 74, 100), False),
        (Sums(100, 80, 97), Sums(100, 80, 100), False),
        (Sums(100, 90, 100), Sums(100, 79, 100), False),
    ],
)
def test_the_bounds_are_held_by_both_halves_and_between_them(work: Sums, measure: Sums, kept: bool) -> None:
    assert holds([work, measure]) is kept


def test_scripts_that_import_a_module_are_checked_with_it(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("class Net: pass\n")
    (tmp_path / "train.py").write_text("from net import Net\n\nloss.backward()\n")
    (tmp_path / "plot.py").write_text("from net import Net\n")
    (tmp_path / "other.py").write_text("import network\n\nloss.backward()\n")
    assert importers(tmp_path, ["net.py"]) == ["train.py"]


def test_few_scripts_are_checked_with_a_module(tmp_path: Path) -> None:
    for number in range(MOST_IMPORTERS + 2):
        (tmp_path / f"train_{number}.py").write_text("import net\nloss.backward()\n" + "#" * number)
    assert importers(tmp_path, ["net.py"]) == [f"train_{number}.py" for number in range(MOST_IMPORTERS)]
