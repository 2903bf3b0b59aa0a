"""The judgements of findings in fresh repositories, and how a run is compared with them."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.fresh import __main__ as command
from benchmarks.fresh.table import (
    VERDICTS,
    Draw,
    Mistake,
    draw,
    is_about_versions,
    judgements_of,
    read_mistakes,
    tally,
)
from benchmarks.real_code import Judgement, Reading
from benchmarks.sight.clones import MEASURE, WORK, Repository, half_of, read_repositories

COMMIT = re.compile(r"[0-9a-f]{12}")


def row(line: int, verdict: str = "", rule: str = "missing-step", file: str = "train.py") -> Judgement:
    return Judgement("someone/digits", "0123456789ab", file, line, rule, verdict)


DRAWS = pytest.mark.parametrize("tables", [draw(1), draw(2)], ids=["first", "second"])


@DRAWS
def test_every_judged_finding_is_of_a_listed_repository_and_says_why(tables: Draw) -> None:
    repositories = {each.name: each for each in read_repositories(tables.repositories)}
    judged = judgements_of(repositories, tables.findings)
    assert len(judged) > 300
    for each in judged:
        assert each.commit == repositories[each.repository].commit
        assert each.verdict in VERDICTS
        assert each.why
    assert len({each.claim for each in judged}) == len(judged)


@DRAWS
def test_every_repository_has_a_commit_and_a_half(tables: Draw) -> None:
    repositories = read_repositories(tables.repositories)
    assert all(COMMIT.fullmatch(each.commit) for each in repositories)
    halves = Counter(each.half for each in repositories)
    assert set(halves) == {WORK, MEASURE}
    assert min(halves.values()) >= 60
    assert len({each.name for each in repositories}) == len(repositories)


def test_every_mistake_that_was_read_first_is_in_the_working_half() -> None:
    work = {each.name for each in read_repositories(draw(1).repositories) if each.half == WORK}
    assert {each.repository for each in read_mistakes()} <= work


def test_the_halves_of_the_second_draw_are_given_by_the_names() -> None:
    repositories = read_repositories(draw(2).repositories)
    assert all(each.half == half_of(each.name) for each in repositories)
    assert {each.repository for each in read_mistakes(draw(2).read)} <= {each.name for each in repositories}


def test_a_judged_finding_is_still_given_or_gone_and_others_are_unjudged() -> None:
    judged = [row(1, "true"), row(2, "true"), row(3, "false")]
    counted = tally(judged, [row(1), row(3), row(9)])
    assert counted.judged == Counter(true=2, false=1)
    assert counted.given == Counter(true=1, false=1)
    assert counted.unjudged == 1
    assert counted.share == 0.5


def test_without_findings_all_are_true() -> None:
    assert tally([], []).share == 1.0


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([row(12)], True),
        ([row(14)], False),
        ([row(12, rule="missing-seed")], False),
        ([row(12, file="other.py")], False),
        ([], False),
    ],
)
def test_a_mistake_is_found_by_its_rule_near_its_line(given: list[Judgement], expected: bool) -> None:
    mistake = Mistake("someone/digits", "train.py", 10, frozenset({"missing-step", "stale-parameters"}), "a reason")
    assert mistake.is_found(given) is expected


def test_names_and_grammar_are_about_versions() -> None:
    assert is_about_versions("removed-name")
    assert not is_about_versions("missing-step")


def test_a_clone_at_another_commit_is_a_trouble(tmp_path: Path) -> None:
    reading = command.read_repository(tmp_path, Repository("someone/digits", "0123456789ab", WORK))
    assert reading.troubles == ("someone/digits: at no commit, not 0123456789ab",)
    assert not reading.found


def test_a_half_is_printed_with_its_shares(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(command, "judgements_of", lambda *_: [row(1, "true"), row(2, "false")])
    reading = Reading("someone/digits", 4, ((row(1), "a message"), (row(7), "another")), ())
    assert command.print_half(WORK, [reading])
    printed = capsys.readouterr().out
    assert "work: 1 repositories, 4 files" in printed
    assert re.search(r"training +1 of 1 +0 of 0 +0 of 1 +100.0% +1\b", printed)
