"""Gradients followed from their birth to their use, and schedules followed step by step."""

from __future__ import annotations

import dataclasses
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from lintrain.evidence.run import OptimizerUse, ScheduleUse
from lintrain.runtime.frameworks.loop.batches import before_training
from lintrain.runtime.frameworks.loop.effects import Effects
from lintrain.runtime.frameworks.loop.ledger import Ledger
from lintrain.runtime.frameworks.loop.model import judged_rows
from lintrain.runtime.frameworks.loop.schedules import Schedules
from lintrain.runtime.measure.losses import loss_evidence
from lintrain.runtime.measure.seen import Forward, Iteration, LossCall


class Loop:
    """A network, its optimizer, and a ledger that is told what a watch would tell it."""

    def __init__(self, net: nn.Module | None = None) -> None:
        torch.manual_seed(0)
        self.net = net or nn.Linear(3, 2)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.ledger = Ledger()
        self.ledger.watch(self.optimizer)

    def backward(self, *, by: float = 1.0) -> None:
        (self.net(torch.ones(4, 3)).sum() * by).backward()
        self.ledger.on_backward_end()

    def step(self) -> None:
        self.ledger.on_step_start(self.optimizer)
        self.optimizer.step()
        self.ledger.on_step_end(self.optimizer)

    @property
    def use(self) -> OptimizerUse:
        (use,) = self.ledger.uses()
        return use


def test_a_loop_in_order_uses_every_gradient_once() -> None:
    loop = Loop()
    for _ in range(3):
        loop.optimizer.zero_grad()
        loop.backward()
        loop.step()
    assert dataclasses.replace(loop.use, made_at=None, reached_at=None) == OptimizerUse("SGD", 2, steps=3, reached=3)
    assert not loop.ledger.is_wasteful()


@pytest.mark.parametrize("to_none", [True, False])
def test_gradients_that_nobody_clears_are_used_twice(to_none: bool) -> None:
    kept, cleared = Loop(), Loop()
    for loop in (kept, cleared):
        for _ in range(3):
            loop.backward()
            loop.step()
            if loop is cleared:
                loop.optimizer.zero_grad(set_to_none=to_none)
    assert (kept.use.steps_on_used, cleared.use.steps_on_used) == (2, 0)


def test_gradients_added_up_before_a_step_are_not_used_twice() -> None:
    loop = Loop()
    for _ in range(2):
        loop.optimizer.zero_grad()
        loop.backward()
        loop.backward()
        loop.step()
    assert (loop.use.steps_on_used, loop.use.dropped, loop.use.reached) == (0, 0, 4)


@pytest.mark.parametrize("to_none", [True, False])
def test_steps_behind_the_clearing_find_nothing(to_none: bool) -> None:
    loop = Loop()
    for _ in range(2):
        loop.backward()
        loop.optimizer.zero_grad(set_to_none=to_none)
        loop.step()
    assert (loop.use.steps_on_nothing, loop.use.steps_on_used, loop.use.reached) == (2, 0, 2)
    assert loop.use.dropped == 2


def test_gradients_cleared_in_a_loop_without_steps_are_wasted() -> None:
    loop = Loop()
    for _ in range(2):
        loop.optimizer.zero_grad()
        loop.backward()
    assert loop.use.dropped == 1
    assert loop.ledger.is_wasteful()
    loop.step()
    assert not loop.ledger.is_wasteful()


def test_what_waits_for_its_step_is_known() -> None:
    loop, weights = Loop(), list[Any]()
    weights += loop.net.parameters()
    assert not loop.ledger.waits(weights)
    loop.backward()
    assert loop.ledger.waits(weights)
    loop.step()
    assert not loop.ledger.waits(weights)


def test_gradients_of_zero_reach_nothing_that_waits() -> None:
    loop = Loop()
    loop.backward(by=0.0)
    assert not loop.ledger.waits(list(loop.net.parameters()))
    loop.step()
    assert (loop.use.steps_on_nothing, loop.use.reached) == (1, 1)


def test_sparse_gradients_are_followed_too() -> None:
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(5, 2, sparse=True)

        def forward(self, x: Any) -> Any:
            return self.table(x.long())

    loop = Loop(Words())
    loop.backward()
    loop.step()
    loop.backward()
    loop.step()
    assert (loop.use.steps, loop.use.steps_on_used) == (2, 1)


def test_gradients_that_cancel_are_not_cleared() -> None:
    loop = Loop()
    loop.backward()
    loop.backward(by=-1.0)
    loop.backward()
    loop.step()
    assert (loop.use.dropped, loop.use.steps_on_nothing) == (0, 0)
    assert not loop.ledger.is_wasteful()


def test_gradients_that_cancel_before_a_step_wait_for_it() -> None:
    loop = Loop()
    loop.backward()
    loop.backward(by=-1.0)
    loop.step()
    assert loop.use.dropped == 0


def test_two_optimizers_have_accounts_of_their_own() -> None:
    body, head = nn.Linear(3, 3), nn.Linear(3, 2)
    first, second = (torch.optim.SGD(part.parameters(), lr=0.1) for part in (body, head))
    ledger = Ledger()
    for optimizer in (first, second):
        ledger.watch(optimizer)
    head(body(torch.ones(4, 3)).detach()).sum().backward()
    ledger.on_backward_end()
    ledger.on_step_start(second)
    second.step()
    ledger.on_step_end(second)
    assert [(use.reached, use.steps) for use in ledger.uses()] == [(0, 0), (1, 1)]


def test_an_optimizer_that_another_stands_for_is_stepped_elsewhere() -> None:
    loop = Loop()
    other = torch.optim.Adam(loop.net.parameters())
    loop.ledger.watch(other)
    loop.backward()
    loop.step()
    assert [use.is_stepped_elsewhere for use in loop.ledger.uses()] == [False, True]


def schedule_use(make: Any, *, steps: int = 3) -> ScheduleUse:
    """What is told of a schedule that goes on after each of a few steps."""
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1)
    schedules = Schedules()
    schedule = make(optimizer)
    schedules.on_schedule(schedule, ())
    schedules.on_schedule(schedule, ())  # a class above its own tells of it once more
    for done in range(steps):
        optimizer.step()
        schedules.on_schedule_step(schedule, optimizer_steps=done + 1, is_training=True)
        schedule.step()
    (use,) = schedules.uses()
    return use


def test_a_schedule_is_counted_once_and_step_by_step() -> None:
    use = schedule_use(lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 10))
    rates = ((), (0.1,))
    expected = ScheduleUse("StepLR", 3, 0, 3, length=None, peak=None, group_rates=rates)
    assert dataclasses.replace(use, made_at=None) == expected
    assert use.made_at is not None
    assert use.made_at.path.endswith("test_measure_loop.py")


@pytest.mark.parametrize(
    ("make", "length", "peak"),
    [
        (lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=40), 40, None),
        (lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=30), 30, None),
        (lambda optimizer: torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=20), 20, None),
        (lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda step: min(step / 5, max(0.0, 1 - step / 50))), 50, 5),
        (lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.999**step), None, 0),
    ],
)
def test_length_and_peak_are_told_where_a_schedule_has_them(make: Any, length: int | None, peak: int | None) -> None:
    use = schedule_use(make)
    assert (use.length, use.peak) == (length, peak)


def test_steps_before_the_optimizer_and_outside_of_training_are_told() -> None:
    schedules, optimizer = Schedules(), torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    schedules.on_schedule(schedule, ())
    schedules.on_schedule_step(schedule, optimizer_steps=0, is_training=True)
    schedules.on_schedule_step(schedule, optimizer_steps=1, is_training=False)
    schedules.on_schedule_step(object(), optimizer_steps=1, is_training=True)
    (use,) = schedules.uses()
    assert (use.steps, use.steps_before_optimizer, use.steps_while_training) == (2, 1, 1)


def test_a_pass_over_made_rows_before_the_training_ends_once_it_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = count(step=0.6)
    monkeypatch.setattr("lintrain.runtime.frameworks.loop.batches.time.process_time", lambda: next(clock))
    shortened: list[str] = []
    watch: Any = SimpleNamespace(run=None, session=SimpleNamespace(shorten=shortened.append))
    assert [each for each in before_training(watch, iter(range(100)), 101)] == [*range(17)]  # noqa: C416 - a loop asks
    assert shortened == ["a loader that is read before the training ended after 17 batches"]
    asked = before_training(watch, iter(range(100)), 101)
    assert [next(asked) for _ in range(100)] == [*range(100)]
    # Not one that would be over within a minute: what it keeps may be asked for row by row.
    assert len([each for each in before_training(watch, iter(range(90)), 90)]) == 90  # noqa: C416 - as above
    watch.run = object()
    assert len([each for each in before_training(watch, iter(range(101)), 101)]) == 101  # noqa: C416 - as above


def test_an_empty_list_of_parameters_is_not_clipped_too_early() -> None:
    effects = Effects()
    effects.on_clipping([], 1.0)
    assert (effects.counts["clips"], effects.counts["clipped_before_backward"]) == (0, 0)
    effects.on_clipping([nn.Parameter(torch.ones(1))], 1.0)
    assert (effects.counts["clips"], effects.counts["clipped_before_backward"]) == (1, 1)


def test_of_two_passes_the_one_on_the_rows_of_the_batch_is_shown() -> None:
    critic, rows, made = nn.Linear(4, 1), torch.randn(6, 4), torch.randn(6, 4)
    outputs = [critic(rows), critic(made)]
    forwards = [Forward(critic, (given,), {}, output) for given, output in zip((rows, made), outputs, strict=True)]
    calls = [
        LossCall("binary_cross_entropy_with_logits", output.squeeze(1), torch.full((6,), wanted), {})
        for output, wanted in zip(outputs, (1.0, 0.0), strict=True)
    ]
    for order in (slice(None), slice(None, None, -1)):
        found = judged_rows(Iteration((rows,), forwards[order], calls[order]), critic)
        assert found is not None
        assert (found[0], found[1]) == (calls[0], outputs[0])
    assert judged_rows(Iteration((rows,), forwards[:1], calls[:1]), critic) is None
    assert judged_rows(Iteration((torch.randn(6, 4),), forwards, calls), critic) is None


@pytest.mark.parametrize(("trained", "is_swapped"), [("target", True), ("input", False), ("both", False), ("", False)])
def test_pictures_before_their_reconstruction_are_swapped_in_a_binary_cross_entropy(
    trained: str, is_swapped: bool
) -> None:
    given = torch.rand(4, 3, requires_grad=trained in ("input", "both"))
    target = torch.rand(4, 3, requires_grad=trained in ("target", "both"))
    assert loss_evidence(LossCall("binary_cross_entropy", given, target, {})).is_swapped is is_swapped
    assert not loss_evidence(LossCall("kl_div", given, target, {})).is_swapped
