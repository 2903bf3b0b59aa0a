"""What the runs of the benchmark share: small models, data made of random numbers, and one step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

torch: Any = import_module("torch")  # Any: its types call its own methods untyped
nn: Any = torch.nn
F: Any = nn.functional


Watch = Callable[..., bool]
"""`lintrain.watch`, or a stand-in that does nothing."""

FEATURES, CLASSES = 10, 4


def classifier(width: int = 32) -> Any:
    """Two layers that tell four classes apart."""
    return nn.Sequential(nn.Linear(FEATURES, width), nn.ReLU(), nn.Linear(width, CLASSES))


def labelled(rows: int, steps: int, noise: float = 0.0) -> Iterator[tuple[int, Any, Any]]:
    """Batches whose labels follow from their rows, but for a share of noise."""
    truth = torch.randn(FEATURES, CLASSES)
    for step in range(steps):
        x = torch.randn(rows, FEATURES)
        y = (x @ truth).argmax(1)
        random = torch.randint(CLASSES, (rows,))
        yield step, x, torch.where(torch.rand(rows) < noise, random, y)


def adam(model: Any, rate: float = 3e-3, **given: Any) -> Any:
    """The usual optimizer."""
    return torch.optim.AdamW(model.parameters(), lr=rate, **given)


def step_with(optimizer: Any, loss: Any) -> None:
    """Clear, go backward, step."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def train(watch: Watch, model: Any, optimizer: Any, batches: Any, schedule: Any = None) -> None:
    """A plain loop of cross-entropy."""
    for _, x, y in batches:
        loss = F.cross_entropy(model(x), y)
        watch(loss, batch=(x, y))
        step_with(optimizer, loss)
        if schedule is not None:
            schedule.step()


def scheduled(optimizer: Any, factor: Callable[[int], float]) -> Any:
    """A schedule that multiplies the rate by a factor of the step."""
    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
