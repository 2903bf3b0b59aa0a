"""What the two losses of a game do to scores, teachers that are asked twice, and targets that a loss counts."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as everybody names it

from lintrain.model.location import Location
from lintrain.runtime.frameworks.loop.players import Players
from lintrain.runtime.frameworks.loop.teachers import Teachers
from lintrain.runtime.measure.counted_targets import target_alignment
from lintrain.runtime.measure.gradients import _waiting
from lintrain.runtime.measure.seen import Forward, Iteration, LossCall

HERE = Location("train.py", 1, 1, 1, 2)
Score = Callable[[Any, float], Any]
Loss = Callable[[Any], Any]


def binary(scores: Any, target: float) -> Any:
    return F.binary_cross_entropy_with_logits(scores, torch.full_like(scores, target))


def squared(scores: Any, target: float) -> Any:
    return F.mse_loss(scores, torch.full_like(scores, target))


def hinge(scores: Any, target: float) -> Any:
    return F.relu(1 + scores if target == 0 else 1 - scores).mean()


def critic(scores: Any, target: float) -> Any:
    return scores.mean() * (1 if target == 0 else -1)


def game(score: Score, of_maker: Loss, *, turns: int = 3, is_judge_trained: bool = True) -> list[str]:
    torch.manual_seed(0)
    said: list[str] = []
    players = Players(lambda text, _at: said.append(text))
    maker, judge = nn.Linear(4, 8), nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
    steps = torch.optim.Adam([*judge.parameters(), *maker.parameters()], lr=1e-3)

    def judged(rows: Any) -> Any:
        scores = judge(rows)
        players.on_forward(Forward(judge, (rows,), {}, scores, records=True, location=HERE))
        return scores

    for _ in range(turns):
        real, fake = torch.randn(16, 8) + 2, maker(torch.randn(16, 4))
        if is_judge_trained:
            (score(judged(real), 1) + score(judged(fake.detach()), 0)).backward()
            players.on_backward_end()
        of_maker(judged(fake)).backward()
        players.on_backward_end()
        steps.step()
        steps.zero_grad()
    return said


@pytest.mark.parametrize("score", [binary, critic])
def test_a_generator_with_the_target_of_made_rows_is_named(score: Score) -> None:
    said = game(score, lambda scores: score(scores, 0))
    assert said
    assert all("lowers the scores of all its rows" in text for text in said)


@pytest.mark.parametrize(
    ("score", "of_maker"),
    [
        (binary, lambda scores: binary(scores, 1)),
        (squared, lambda scores: squared(scores, 1)),
        (hinge, lambda scores: -scores.mean()),
        (critic, lambda scores: -scores.mean()),
        (binary, lambda scores: -F.softplus(scores).mean()),
    ],
    ids=["binary", "squared", "hinge", "critic", "saturating"],
)
def test_a_generator_that_opposes_its_judge_is_not(score: Score, of_maker: Loss) -> None:
    assert game(score, of_maker) == []


def test_a_network_that_is_not_trained_as_a_judge_is_no_player() -> None:
    assert game(binary, lambda scores: binary(scores, 0), is_judge_trained=False) == []


def test_one_turn_is_not_enough() -> None:
    assert game(binary, lambda scores: binary(scores, 0), turns=1) == []


def teacher_of(rate: float = 0.3) -> Any:
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(rate), nn.Linear(16, 3))


def taught(teacher: Any, *, is_averaged: bool = False, is_read: bool = False, is_trained: bool = False) -> list[str]:
    torch.manual_seed(0)
    said: list[str] = []
    teachers = Teachers(lambda text, _at: said.append(text))
    student = nn.Linear(3 if is_read else 8, 3)
    weights = [*student.parameters(), *(teacher.parameters() if is_trained else ())]
    for _ in range(3):
        x = torch.randn(16, 8)
        with torch.no_grad():
            goal = teacher(x)
        given = goal if is_read else x
        modes = tuple(part.training for part in teacher.modules() if isinstance(part, nn.Dropout) and part.p > 0)
        beside = Forward(teacher, (x,), {}, goal, modes=modes, called=teacher, location=HERE)
        trained = Forward(student, (given,), {}, student(given), records=True, called=student, location=HERE)
        before = copy.deepcopy(teacher.state_dict()), teacher.training
        teachers.on_backward_start(Iteration(forwards=[beside, trained]), {id(weight) for weight in weights})
        assert teacher.training == before[1]
        assert all(value.equal(before[0][name]) for name, value in teacher.state_dict().items())
        if is_averaged:
            with torch.no_grad():
                teacher[0].weight.mul_(0.99)
    return said


def test_a_teacher_with_dropout_in_train_mode_is_named_once() -> None:
    (text,) = taught(teacher_of())
    assert "two answers of `Sequential` to one batch differ by" in text
    assert text.endswith("with 1 layers in train mode")


def test_other_teachers_are_not_named() -> None:
    assert taught(teacher_of().eval()) == []
    assert taught(teacher_of(0.0)) == []
    assert taught(teacher_of(), is_averaged=True) == []
    assert taught(teacher_of(), is_read=True) == []
    assert taught(teacher_of(), is_trained=True) == []


class McNet(nn.Sequential):
    """Dropout on purpose, as its name says."""


def test_a_teacher_that_is_random_by_name_is_not_named() -> None:
    assert taught(McNet(*teacher_of())) == []


IDS = torch.tensor([[5, 6, 7, 8, 0, 0], [5, 6, 7, 9, 3, 0], [4, 6, 0, 0, 0, 0]])


def scored_padding(reduce: Callable[[Any, Any], Any] | None, targets: Any = None, **options: Any) -> int | None:
    targets = IDS[:, 1:] if targets is None else targets
    scores = torch.randn(len(IDS), 10, targets.shape[1], requires_grad=True)
    call = LossCall("cross_entropy", scores, targets, {"reduction": "none", **options}, ids=IDS)
    result = F.cross_entropy(scores, targets, **call.options)
    call.on_result(result)
    if reduce is not None:
        reduce(result, targets).backward()
    found = target_alignment(call)
    return found.padding if found is not None else None


def test_positions_that_the_script_leaves_out_itself_are_not_scored() -> None:
    assert scored_padding(lambda each, _: each.mean()) == 7
    assert scored_padding(lambda each, targets: each[targets != 0].mean()) == 0
    assert scored_padding(lambda each, targets: (each * (targets != 0)).sum() / 9) == 0
    assert scored_padding(lambda each, targets: (each * (targets == 0)).sum() / 9) == 7


def test_without_a_backward_pass_it_is_not_known() -> None:
    assert scored_padding(None) is None


def test_a_class_of_weight_0_is_not_scored() -> None:
    weight = torch.ones(10)
    weight[0] = 0
    assert scored_padding(lambda each, _: each.mean(), weight=weight) == 0
    assert scored_padding(lambda each, _: each.sum(), weight=weight, reduction="sum") == 0


def test_tags_belong_to_their_own_positions() -> None:
    """They equal tokens by chance: at one of three offsets most."""
    tags = torch.where(IDS > 0, IDS % 5 + 1, 0)
    assert scored_padding(lambda each, _: each.mean(), tags) == 7
    assert scored_padding(lambda each, targets: (each * (targets != 0)).sum(), tags) == 0


def test_weights_whose_optimizer_has_had_no_turn_are_waiting() -> None:
    body, head = nn.Linear(3, 3), nn.Linear(3, 2)
    gradients: Any = SimpleNamespace(parameters={"body": body.weight, "head": head.weight})
    first, second = (torch.optim.SGD([each.weight], lr=0.1) for each in (body, head))
    run: Any = SimpleNamespace(optimizers=(first, second))
    assert _waiting(run, gradients, {"head"}) == ("head",)
    assert _waiting(run, gradients, set()) == ()
    assert _waiting(run, gradients, {"body", "head"}) == ()
    run.optimizers = (torch.optim.SGD([body.weight, head.weight], lr=0.1),)
    assert _waiting(run, gradients, {"head"}) == ()
