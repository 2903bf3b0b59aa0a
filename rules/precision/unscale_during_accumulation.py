"""Gradients are unscaled in every batch, although the optimizer steps only after several.

`unscale_` divides the gradients by the scale of the loss. The next backward pass then adds scaled gradients to unscaled
ones, and a second call before `update` raises a RuntimeError.

## Bad

    scaler = torch.amp.GradScaler("cuda")
    for index, (x, y) in enumerate(loader):
        with torch.autocast("cuda"):
            loss = criterion(net(x), y) / 2
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)  # <- unscale-during-accumulation
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        if (index + 1) % 2 == 0:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()

## Good

    scaler = torch.amp.GradScaler("cuda")
    for index, (x, y) in enumerate(loader):
        with torch.autocast("cuda"):
            loss = criterion(net(x), y) / 2
        scaler.scale(loss).backward()
        if (index + 1) % 2 == 0:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()

## When it is fine

A step that is left out for other reasons than accumulation:

    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = criterion(net(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        if torch.isfinite(norm):
            scaler.step(optimizer)
        scaler.update()

## Fix

None: the calls after it usually have to move as well.

## References

PyTorch documentation, "Automatic Mixed Precision examples", gradient accumulation; the fix in `Nerogar/OneTrainer`,
commit 9c08419cf700.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import iterations
from lintrain.pipeline.events import Act
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, one_per_location


class UnscaleDuringAccumulation(Rule):
    level = Level.ERROR
    keywords = "unscale_ & backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(
            self.finding(
                event.location,
                "gradients are unscaled in every batch, while others are still being added",
                related=[Related(step.location, "steps only after some batches", "step")],
                help="call `unscale_` directly before the step, under its condition",
            )
            for training in iterations.loops_and_steps(pipeline)
            if (step := iterations.accumulated_step(pipeline, training)) is not None
            for event in training.inside
            if event.act is Act.UNSCALE and iterations.is_in_each_batch(event, training, step)
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        location = evidence.first("unscaled_again")
        if location is not None:
            yield self.finding(
                location,
                "gradients are unscaled again before the scaler is updated",
                help="call `unscale_` directly before the step, under its condition",
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        text = f"{loop.unscaled_again} of {loop.unscalings} calls followed another one without an update between them"
        numbers = {"again": loop.unscaled_again, "calls": loop.unscalings}
        if loop.unscaled_again:
            return Verdict.confirmed(f"{text}, which raises an error on a GPU", **numbers)
        return (Verdict.refuted if loop.unscalings > 1 else Verdict.inconclusive)(text, **numbers)
