"""A bound is on the wrong side: `min` with the lowest value that a quantity is to have, or `max` with the highest.

A rate of exploration that falls from 1 to 0.05 is kept above 0.05 by `max`. `min` makes it 0.05 in the first step, so
nothing is explored, and lower still in the next ones. A weight that is to rise to 1 is 1 from the start with `max`. A
clip whose limits are in the wrong order gives its upper limit for every value. None of these raises an error.

## Bad

    import random

    floor, rate = 0.05, 1.0
    for x, y in loader:
        if random.random() < rate:
            x = x + torch.randn_like(x)
        loss = criterion(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rate = min(floor, rate * 0.99)  # <- wrong-bound

A weight that is to rise, and the limits of a clip:

    warmup_steps = 4
    for step, (x, y) in enumerate(loader):
        weight = max(1.0, step / warmup_steps)  # <- wrong-bound
        scores = torch.clamp(net(x), 5.0, -5.0)  # <- wrong-bound
        loss = weight * (criterion(net(x), y) + scores.pow(2).mean())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

## Good

    import random

    floor, rate = 0.05, 1.0
    for x, y in loader:
        if random.random() < rate:
            x = x + torch.randn_like(x)
        loss = criterion(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rate = max(floor, rate * 0.99)

and

    warmup_steps = 4
    for step, (x, y) in enumerate(loader):
        weight = min(1.0, step / warmup_steps)
        scores = torch.clamp(net(x), -5.0, 5.0)
        loss = weight * (criterion(net(x), y) + scores.pow(2).mean())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

## When it is fine

What is left of a number of rows, and a ceiling for what grows:

    rows, chunk, scale = 100, 16, 0.1
    for number, (x, y) in enumerate(loader):
        x = x[: min(chunk, rows - number * chunk)]
        loss = scale * criterion(net(x), y[: len(x)])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scale = min(1.0, scale * 1.5)

## Fix

None: the bound, or the value that it limits, may be the wrong one.

## References

PyTorch tutorial, "Reinforcement Learning (DQN)"; NumPy documentation, `numpy.clip`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import wrong_bounds
from lintrain.rule import Finding, Level, Pipeline, Rule, Source, Targets, one_per_location


class WrongBound(Rule):
    level = Level.ERROR
    keywords = "min(|max(|minimum(|maximum(|clip(|clamp(|clip_(|clamp_("
    needs_training = False

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return any(wrong_bounds.wrong_bounds(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(
            self.finding(each.location, each.message, help=each.remedy)
            for each in wrong_bounds.wrong_bounds(pipeline.source)
        )
