"""The loss is computed by a copy of the model, so the optimizer has no gradients of it.

`copy.deepcopy` makes new parameters. `backward` fills the gradients of the copy, the optimizer holds the parameters of
the original, and `step` changes nothing. No error is raised.

## Bad

    import copy

    for x, y in loader:
        fresh = copy.deepcopy(net)  # <- gradients-on-copy
        optimizer.zero_grad()
        loss = criterion(fresh(x), y)
        loss.backward()
        optimizer.step()

## Good

    import copy

    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()

## When it is fine

The copy has an optimizer of its own, or hands its gradients on:

    import copy

    for x, y in loader:
        fresh = copy.deepcopy(net)
        inner = torch.optim.SGD(fresh.parameters(), lr=0.1)
        criterion(fresh(x), y).backward()
        inner.step()

    for x, y in loader:
        fresh = copy.deepcopy(net)
        optimizer.zero_grad()
        criterion(fresh(x), y).backward()
        for mine, other in zip(net.parameters(), fresh.parameters()):
            mine.grad = other.grad
        optimizer.step()

## Fix

None: whether the copy or the optimizer is wrong is for the author to say.

## References

Python documentation, `copy.deepcopy`; PyTorch documentation, `torch.optim`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import shared_passes, training_loops
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, one_per_location


class GradientsOnCopy(Rule):
    level = Level.ERROR
    keywords = "deepcopy & backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        if training_loops.trains_by_hand(pipeline):
            yield from one_per_location(self._report(each) for each in shared_passes.trains_on_copies(pipeline))

    def _report(self, copied: shared_passes.Copied) -> Finding:
        optimizer = training_loops.text_of_event(copied.step)
        model = copied.model if len(copied.model) <= 20 else "the model"
        return self.finding(
            copied.location,
            f"the gradients end in `{copied.copy}`, a copy that `{optimizer}` does not have",
            related=[
                Related(copied.forward.location, "the loss is computed by the copy", "forward"),
                Related(copied.step.location, "updates the original", "step"),
            ],
            help=f"run `{model}` itself",
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        loop = evidence.loop
        reached = loop.reached if loop is not None else None
        # Gradients that the script hands on to the weights of its optimizer make the step as it should be.
        are_idle = loop is not None and all(use.steps_on_nothing == use.steps for use in loop.optimizers)
        if reached is not None and reached.copied_at is not None and are_idle:
            yield self.finding(
                reached.copied_at,
                "the loss is computed by a copy of the model, so the optimizer has no gradients of it",
                help="call the model itself, or give the parameters of the copy to the optimizer",
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        reached = sum(use.reached for use in loop.optimizers)
        text = f"{reached} of {loop.backwards} backward passes reached a parameter of an optimizer"
        if not loop.backwards:
            return Verdict.inconclusive(text)
        return (Verdict.refuted if reached else Verdict.confirmed)(text, reached=reached)
