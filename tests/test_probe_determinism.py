"""`--also determinism`: two starts of one script, and what is not the same in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lintrain.evidence.run import DeterminismEvidence, Evidence
from lintrain.model.location import Location
from lintrain.rulebook import load_rules
from lintrain.runtime.parent.timeline import Timeline, TimelineStep
from lintrain.runtime.passes.checkpoint import starts_evidence
from tests.support.probing import path_for_lintrain, probe

LOOP = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BEFORE
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))
AFTER
rows = TensorDataset(torch.arange(5120).reshape(640, 8) / 5120, torch.arange(640) % 3)
train_loader = DataLoader(rows, batch_size=16, shuffle=True)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
for x, y in train_loader:
    optimizer.zero_grad()
    criterion(net(x), y).backward()
    optimizer.step()
torch.save(net.state_dict(), "net.pt")
"""
HIDDEN = 'vars(torch)["manual_se" + "ed"](0)'


def looped(before: str = "", after: str = "") -> str:
    return LOOP.replace("BEFORE", before).replace("AFTER", after)


@pytest.mark.turns(one_in=3, of="file")
@pytest.mark.slow
@pytest.mark.usefixtures("warm_command")
def test_a_loop_without_a_seed_starts_from_other_weights_and_rows_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path_for_lintrain(monkeypatch)
    probed = probe(tmp_path, looped(), "--also", "determinism")
    starts = probed.run["determinism"]
    assert [(rule, outcome) for rule, _, outcome in probed.verdicts] == [("missing-seed", "confirmed")]
    assert (starts["weights"], len(starts["different_weights"])) == (4, 4)
    assert (starts["batches"], starts["different_batches"], starts["same_rows"]) == (3, 3, False)
    assert starts["generators"] == ["torch"]
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


@pytest.mark.turns(one_in=3, of="file")
@pytest.mark.slow
@pytest.mark.usefixtures("warm_command")
def test_a_second_start_that_does_the_same_refutes_a_late_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path_for_lintrain(monkeypatch)
    probed = probe(tmp_path, looped(HIDDEN, "torch.manual_seed(1)"), "--also", "determinism")
    starts = probed.run["determinism"]
    assert [(rule, outcome) for rule, _, outcome in probed.verdicts] == [("late-seed", "refuted")]
    assert starts["losses"][0] == pytest.approx(starts["losses"][1], rel=1e-6)
    assert (starts["different_weights"], starts["different_batches"], starts["same_rows"]) == ([], 0, True)


def step(loss: float, weights: dict[str, str], torch: str, rows: tuple[int, ...] = (1, 2)) -> TimelineStep:
    return TimelineStep((loss,), f"batch {rows}", rows, weights, {}, {}, (1e-3,), {"Python": "p", "torch": torch})


def timeline(*steps: TimelineStep) -> Timeline:
    return Timeline(list(steps))


def test_a_generator_that_nobody_draws_from_is_no_difference() -> None:
    one = timeline(step(1.0, {"w": "a"}, "t1"), step(0.9, {"w": "b"}, "t2"))
    other = timeline(step(1.0, {"w": "a"}, "t1"), step(0.9, {"w": "b"}, "t2"))
    other.steps[0].generators["Python"] = "elsewhere"
    assert starts_evidence(one, other).repeats


def test_rows_in_another_order_are_a_source_by_themselves() -> None:
    found = starts_evidence(timeline(step(1.0, {"w": "a"}, "t")), timeline(step(1.1, {"w": "a"}, "t", (2, 1))))
    assert found.sources == ("1 of 1 batches, of other rows",)
    assert not found.repeats


@pytest.mark.parametrize(
    ("rule", "different", "outcome"),
    [
        ("late-seed", ("head.weight",), "confirmed"),
        ("missing-seed", ("head.weight",), "confirmed"),
        ("missing-seed", (), "refuted"),
        ("late-seed", None, "inconclusive"),
        ("missing-seed", None, "inconclusive"),
    ],
)
def test_rules_of_seeds_are_judged_by_two_starts(rule: str, different: tuple[str, ...] | None, outcome: str) -> None:
    losses = ((1.0,), (1.2 if different else 1.0,))
    starts = None if different is None else DeterminismEvidence(losses, 4, different, 1, 0, True)
    evidence = Evidence("train.py", "torch", "a loop", None, None, "cpu", {}, determinism=starts)
    judge = next(each.rule for each in load_rules() if each.name == rule)
    verdict = judge.verify(judge.finding(Location("train.py", 1, 1, 1, 2), "a claim"), evidence)
    assert verdict.outcome == outcome
    assert outcome != "inconclusive" or verdict.reason == "`lintrain probe --also determinism` measures it"


@pytest.mark.parametrize(("seed", "different", "found"), [(42, ("head.weight",), 1), (42, (), 0), (None, ("w",), 0)])
def test_a_trainer_whose_seed_comes_after_random_weights_is_told_by_two_starts(
    seed: int | None, different: tuple[str, ...], found: int
) -> None:
    built = Location("train.py", 7, 1, 7, 9)
    starts = DeterminismEvidence(((1.0,), (1.2,)), 4, different, 1, 0, True)
    arguments: dict[str, str | int | float | bool | None] = {} if seed is None else {"seed": seed}
    evidence = Evidence(
        "train.py", "transformers", "Trainer", None, built, "cpu", {}, arguments=arguments, determinism=starts
    )
    rule = next(each.rule for each in load_rules() if each.name == "late-seed")
    judged = list(rule.inspect(evidence))
    assert [(finding.location, verdict.outcome) for finding, verdict in judged] == [(built, "confirmed")] * found
    assert all(rule.follows_from(finding, verdict, finding) for finding, verdict in judged)
