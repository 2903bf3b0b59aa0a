"""A loop binds the result of a loss function to the name of the function.

The first iteration works. From the second one on the name holds a tensor, and calling it raises
`TypeError: 'Tensor' object is not callable`.

## Bad

    loss = nn.CrossEntropyLoss()
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss(net(x), y)  # <- overwritten-loss
        loss.backward()
        optimizer.step()
    # raises 'Tensor' object is not callable

## Good

    loss_function = nn.CrossEntropyLoss()
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_function(net(x), y)
        loss.backward()
        optimizer.step()

## When it is fine

The function gets its name back in every iteration:

    for x, y in loader:
        loss = nn.CrossEntropyLoss()
        optimizer.zero_grad()
        loss = loss(net(x), y)
        loss.backward()
        optimizer.step()

## Fix

None: the function or its result may get another name.

## References

The questions with this mistake in `benchmarks/posts`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import loop_names
from lintrain.rule import Evidence, Finding, Level, Pipeline, Rule, Verdict, one_per_location


class OverwrittenLoss(Rule):
    level = Level.ERROR
    keywords = "backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(
            self.finding(
                location,
                f"`{name}` is called, and then bound to its own result",
                help="give the function and its result different names",
            )
            for location, name in loop_names.overwritten_losses(pipeline.source)
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        failure = evidence.failed_with("object is not callable")
        if failure is not None:
            return Verdict.confirmed("the second iteration calls the loss of the first", stage=failure.name)
        loop = evidence.loop
        if loop is None or loop.steps < 2:
            return Verdict.inconclusive(evidence.without_loop if loop is None else f"the run made {loop.steps} steps")
        return Verdict.refuted(f"the loop made {loop.steps} steps", steps=loop.steps)
