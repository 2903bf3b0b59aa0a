"""`backward` is called on a loss that is more than one number.

`backward()` without an argument needs a single number. A loss that keeps an axis of its batch, such as one term without
`mean()`, raises an error in the first step: *grad can be implicitly created only for scalar outputs*.

## Bad

    criterion = nn.CrossEntropyLoss(reduction="none")
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()  # <- non-scalar-loss
        optimizer.step()
    # raises RuntimeError: grad can be implicitly created only for scalar outputs

## Good

    criterion = nn.CrossEntropyLoss(reduction="none")
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.mean().backward()
        optimizer.step()

## When it is fine

A gradient for each number is passed:

    criterion = nn.CrossEntropyLoss(reduction="none")
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward(torch.ones_like(loss))
        optimizer.step()

## Fix

None: the loss may be meant as the mean or as the sum.

## References

PyTorch documentation, `torch.Tensor.backward`; the fix in `leftthomas/SRGAN`, commit 943842742641.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import training_loops
from lintrain.pipeline import blocks
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.values.model import Role, Tensor
from lintrain.pipeline.values.python import Value, literal
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, lazy_pattern, one_per_location

NOT_SCALAR = "grad can be implicitly created only for scalar outputs"

WITHOUT_GRADIENT = lazy_pattern(r"\.backward\(\s*(?:(?:retain|create)_graph\s*=\s*\w+\s*,?\s*)*\)$")
"""A call of `backward` without the gradient that a loss of several numbers needs."""


class NonScalarLoss(Rule):
    level = Level.ERROR
    keywords = "backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(
            self._report(pipeline, backward, loss)
            for backward in pipeline.acts(Act.BACKWARD)
            if (loss := backward.subject) is backward.details.get("loss") and _has_axes(loss)
            if not _is_one_score(pipeline, backward, loss) and not _has_one_row(pipeline, loss)
            if not blocks.shows_error(pipeline.source_of(backward.location), backward.location)
            if WITHOUT_GRADIENT.search(pipeline.code(backward.location))
        )

    def _report(self, pipeline: Pipeline, backward: Event, loss: Value) -> Finding:
        text, shape = training_loops.text_of_event(backward), loss.shape if isinstance(loss, Tensor) else ""
        shown = f"`{text}`" if 0 < len(text) <= 40 and "\n" not in text else "the loss"
        term = _term_with_axes(pipeline, loss)
        return self.finding(
            backward.location,
            f"{shown} has shape {shape}, and `backward()` needs a single number",
            related=[Related(term.origin, "this term keeps its axes", "term")] if term and term.origin else [],
            help="reduce it with `mean()` or `sum()`",
            level=Level.NOTE,  # a batch of one row has a single number
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        if location := evidence.failed_place(NOT_SCALAR):
            yield self.finding(
                location,
                "the loss is more than one number, and `backward()` needs a single one",
                help="reduce it with `mean()` or `sum()`",
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        failed = evidence.failed_with(NOT_SCALAR)
        if failed is not None and failed.failure is not None:
            return Verdict.confirmed(f"the {failed.name} stage failed: the loss is more than 1 number")
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        text = f"{loop.backwards} backward passes ran without an error about the loss"
        return (Verdict.refuted if loop.backwards else Verdict.inconclusive)(text, backwards=loop.backwards)


def _has_axes(loss: Value) -> bool:
    """Whether a loss certainly has an axis that may have more than one number: the batch, or a larger size."""
    if not isinstance(loss, Tensor) or loss.shape.is_open or not loss.shape.sizes:
        return False
    first, *others = loss.shape.sizes
    # A batch may happen to have one row, but no one writes a loop for that.
    return (first is None and all(size is not None for size in others)) or any(
        size is not None and size > 1 for size in loss.shape.sizes
    )


def _is_one_score(pipeline: Pipeline, backward: Event, loss: Value) -> bool:
    """Whether backward starts at the scores of what may be a single row, as maps of saliency do, outside all loops.

    A function that loops call with one picture each is outside too, if no optimizer uses its gradients.
    """
    if not isinstance(loss, Tensor) or loss.role is Role.LOSS:
        return False
    if any(loop.location.holds(backward.location) for loop in backward.loops):
        return False
    if backward.loops and any(step.function == backward.function for step in pipeline.acts(Act.STEP)):
        return False
    return all(size is None or size == 1 for size in loss.shape.sizes)


def _has_one_row(pipeline: Pipeline, loss: Value) -> bool:
    """Whether a loss has an entry for each row of a batch, and every loader gives one row at a time."""
    if not isinstance(loss, Tensor) or any(size not in (None, 1) for size in loss.shape.sizes):
        return False
    sizes = [literal(each.value("batch_size")) for each in pipeline.loaders]
    return bool(sizes) and all(size == 1 for size in sizes)


def _term_with_axes(pipeline: Pipeline, loss: Value) -> Value | None:
    """The term of a sum that keeps its axes, if only one does."""
    parts = [part for part in pipeline.computed_from(loss) if part is not loss and id(part) not in pipeline.arithmetic]
    terms = [part for part in parts if _has_axes(part)]
    return terms[0] if len({id(term) for term in terms}) == 1 else None
