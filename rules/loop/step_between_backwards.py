"""An optimizer step changes weights that a later `backward` needs as they were.

`step` writes into the weights in place. A backward pass through a network whose weights have changed since its forward
pass raises an error: "one of the variables needed for gradient computation has been modified by an inplace operation".

## Bad

    encoder, head = nn.Linear(8, 16), nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))
    encoder_optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
    head_optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    for x, y in loader:
        logits = head(encoder(x))
        head_loss = criterion(logits, y)
        encoder_loss = logits.square().mean()
        head_optimizer.zero_grad()
        head_loss.backward(retain_graph=True)
        head_optimizer.step()  # <- step-between-backwards
        encoder_optimizer.zero_grad()
        encoder_loss.backward()
        encoder_optimizer.step()
    # raises RuntimeError

## Good

    encoder, head = nn.Linear(8, 16), nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))
    encoder_optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
    head_optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    for x, y in loader:
        logits = head(encoder(x))
        head_loss = criterion(logits, y)
        encoder_loss = logits.square().mean()
        head_optimizer.zero_grad()
        encoder_optimizer.zero_grad()
        head_loss.backward(retain_graph=True)
        encoder_loss.backward()
        head_optimizer.step()
        encoder_optimizer.step()

## When it is fine

A second forward pass uses the new weights:

    generator, critic = nn.Linear(8, 4), nn.Linear(4, 1)
    generator_optimizer = torch.optim.SGD(generator.parameters(), lr=0.1)
    critic_optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
    for x, y in loader:
        made = generator(x)
        critic_loss = critic(made.detach()).mean()
        critic_optimizer.zero_grad()
        critic_loss.backward()
        critic_optimizer.step()
        generator_loss = -critic(made).mean()
        generator_optimizer.zero_grad()
        generator_loss.backward()
        generator_optimizer.step()

## Fix

None: the losses may be computed again, or all steps made at the end.

## References

PyTorch documentation, "Autograd mechanics", in-place correctness checks.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import iterations, training_loops
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, one_per_location

MODIFIED = "modified by an inplace operation"
"""Part of PyTorch's error message."""


class StepBetweenBackwards(Rule):
    level = Level.ERROR
    keywords = "backward & step("

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        if training_loops.trains_by_hand(pipeline):
            yield from one_per_location(self._report(pipeline, each) for each in iterations.stale_passes(pipeline))

    def _report(self, pipeline: Pipeline, stale: iterations.StalePass) -> Finding:
        loss = training_loops.text_of_event(stale.backward)
        name = training_loops.callee_text(pipeline, stale.forward) or "the network"
        shown = f"`{loss}`" if len(loss) <= 20 else "a later loss"
        return self.finding(
            stale.step.location,
            f"changes weights that `backward` of {shown} needs as they were",
            related=[
                Related(stale.forward.location, f"`{name}` ran with the weights before this step", "forward"),
                Related(stale.backward.location, "goes back through that pass", "backward"),
            ],
            help="call every `backward` before the first `step`, or run the network again after it",
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        failed = evidence.failed_with(MODIFIED)
        if failed is not None and failed.failure is not None:
            return Verdict.confirmed(f"the {failed.name} stage failed: `{failed.failure.message.splitlines()[0]}`")
        if evidence.loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        passes = evidence.loop.backwards
        outcome = Verdict.refuted if passes > 1 else Verdict.inconclusive
        return outcome(f"{passes} backward passes ran without an error", backwards=passes)
