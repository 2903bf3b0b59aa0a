"""Tiny trainings that go wrong in known ways, each with a sound twin: losses and gradients of a real loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import nn

Row = dict[str, float]


@dataclass(frozen=True)
class Plan:
    """What a training is made of; each mistake changes one part of a plan, and its twin does not."""

    steps: int = 64
    rate: float = 0.05
    warm_up: int = 8
    schedule_steps: int | None = None
    is_scheduled: bool = True
    rows: int = 512
    noise: float = 0.6
    width: int = 16
    dropout: float = 0.0
    labels_are_random: bool = False
    ignores_labels: bool = False
    trains_another: bool = False
    is_frozen: bool = False
    has_broken_rows: bool = False
    evaluates_own_rows: bool = False
    explodes_at: int | None = None
    collapses: bool = False
    every: int = 8
    seconds: Callable[[int], float] = field(default=lambda _: 0.2)
    """What each step takes by the clock of the log."""


SOUND = Plan()
MISTAKES: dict[str, tuple[Plan, Plan]] = {
    "non-finite": (replace(SOUND, explodes_at=40), SOUND),
    "zero-loss": (replace(SOUND, ignores_labels=True), SOUND),
    "constant-loss": (replace(SOUND, trains_another=True, rows=64), replace(SOUND, rows=64)),
    "no-gradient": (replace(SOUND, is_frozen=True), SOUND),
    "rate-zero": (replace(SOUND, rate=0.0), SOUND),
    "rate-ends-early": (replace(SOUND, schedule_steps=32), replace(SOUND, rate=0.02)),
    "schedule-not-applied": (replace(SOUND, is_scheduled=False, warm_up=0), SOUND),
    "no-progress": (replace(SOUND, labels_are_random=True, rate=0.02, rows=4096), replace(SOUND, rate=0.02)),
    "diverged": (replace(SOUND, rate=6.0, noise=1.5, warm_up=40), replace(SOUND, noise=1.5)),
    "loss-spikes": (replace(SOUND, has_broken_rows=True, noise=0.5), replace(SOUND, noise=0.5)),
    "overfitting": (
        replace(SOUND, rows=24, noise=3.0, width=128, rate=0.1, steps=240, every=24),
        replace(SOUND, rows=2048, noise=1.0, steps=160, every=16),
    ),
    "constant-score": (replace(SOUND, collapses=True), SOUND),
    "eval-better-than-train": (
        replace(SOUND, dropout=0.98, evaluates_own_rows=True, width=64, steps=256, rate=0.3, noise=0.4, every=32),
        replace(SOUND, dropout=0.1, steps=128),
    ),
    "stalls": (
        replace(SOUND, seconds=lambda step: 90.0 if step in (21, 43) else 0.2),
        replace(SOUND, seconds=lambda step: 30.0 if step % 8 == 0 else 0.2),
    ),
    "slows-down": (replace(SOUND, seconds=lambda step: 0.1 + 0.02 * step), replace(SOUND, seconds=lambda _: 0.3)),
}


def train(plan: Plan, seed: int = 0) -> list[Row]:
    """Train, and give what a logger would be given after each step."""
    torch.manual_seed(seed)
    inputs, labels = _data(plan, plan.rows)
    held_out = (inputs, labels) if plan.evaluates_own_rows else _data(plan, 256)
    model, other = _network(plan), _network(plan)
    for weight in model.parameters() if plan.is_frozen else ():
        weight.requires_grad_(False)
    trained = other if plan.trains_another else model
    optimizer = torch.optim.SGD(trained.parameters(), lr=plan.rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _factor(plan, step))
    rows, clock = list[Row](), 0.0
    for step in range(1, plan.steps + 1):
        batch = torch.arange(32) % plan.rows if plan.trains_another else torch.randint(0, plan.rows, (32,))
        x, y = inputs[batch], labels[batch]
        if plan.has_broken_rows and step in (30, 47):
            x = x * 300
        if plan.ignores_labels:
            y = torch.full_like(y, -100)
        model.train()
        loss = nn.functional.cross_entropy(model(x), y, ignore_index=-100, reduction="sum") / 32
        if plan.explodes_at is not None and step >= plan.explodes_at:
            loss = loss * math.inf - loss * math.inf
        rate = optimizer.param_groups[0]["lr"]
        norm = 0.0
        if loss.requires_grad:
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            norm = float(torch.nn.utils.clip_grad_norm_(model.parameters(), math.inf))
        optimizer.step()
        schedule.step()
        clock += plan.seconds(step)
        row = {"step": step, "epoch": step * 32 / plan.rows, "loss": float(loss.detach()), "grad_norm": norm}
        rows.append(row | {"learning_rate": rate, "time": clock})
        if step % plan.every == 0:
            rows[-1] |= _evaluated(plan, model, held_out)
    return rows


def _data(plan: Plan, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Two clouds of points that overlap as much as the noise says."""
    labels = torch.arange(rows) % 2
    inputs = torch.randn(rows, 8) * plan.noise + (labels * 2.0 - 1.0)[:, None] * 0.5
    return inputs, torch.randint(0, 2, (rows,)) if plan.labels_are_random else labels


def _network(plan: Plan) -> nn.Module:
    layers = [nn.Linear(8, plan.width), nn.ReLU(), nn.Dropout(plan.dropout), nn.Linear(plan.width, 2)]
    return nn.Sequential(*layers)


def _factor(plan: Plan, step: int) -> float:
    """A linear warm-up, and a linear way down to 0."""
    if not plan.is_scheduled:
        return 1.0
    whole = plan.schedule_steps or plan.steps
    if step < plan.warm_up:
        return (step + 1) / plan.warm_up
    return max(0.0, (whole - step) / max(1, whole - plan.warm_up))


@torch.no_grad()
def _evaluated(plan: Plan, model: nn.Module, held_out: tuple[torch.Tensor, torch.Tensor]) -> Row:
    model.eval()
    inputs, labels = held_out
    scores = model(inputs)
    predicted = torch.zeros_like(labels) if plan.collapses else scores.argmax(1)
    loss = nn.functional.cross_entropy(scores, labels)
    return {"eval_loss": float(loss), "eval_accuracy": float((predicted == labels).float().mean())}
