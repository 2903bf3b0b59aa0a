"""What a run measured of gradients that reach no parameter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lintrain.model.location import Location
from lintrain.model.verdict import Verdict
from lintrain.startup.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from lintrain.evidence.run import Evidence, LoopEvidence, ReachedWeights


RAISED = ("does not require grad", "object has no attribute 'backward'")
"""Error messages of PyTorch and Python for a loss without a graph."""


def loss_without_graph(evidence: Evidence) -> Location | None:
    """Where `backward` was called on a loss that no gradient flows back from."""
    loop, model = evidence.loop, evidence.model
    is_trainable = model is None or model.trainable_parameters > 0
    location = number_at(evidence) or (evidence.failed_place(RAISED[0]) if is_trainable else None)
    if loop is not None and loop.losses_without_graph == loop.backwards > 0:
        location = location or evidence.first("losses_without_graph") or evidence.location
    if location is None and loop is not None and ends_early(loop):
        location = evidence.first("new_leaves") or evidence.first("losses") or evidence.first("backwards")
    return location


def number_at(evidence: Evidence) -> Location | None:
    """The statement that makes a Python number of the loss, on which `backward` cannot be called."""
    stage = evidence.failed_with(
        "'float' object has no attribute 'backward'", "'int' object has no attribute 'backward'"
    )
    failure = stage.failure if stage is not None else None
    if failure is None or failure.location is None:
        return None
    made = next((value.origin for value in failure.given if value.kind == "number" and value.origin), "")
    line = int(made.partition(":")[0]) if made else failure.location.line
    return Location(failure.location.path, line, 1, line, 1) if made else failure.location


def ends_early(loop: LoopEvidence) -> bool:
    """Whether the graph of the losses ends at tensors of no module, although modules were called for them."""
    reached = loop.reached
    is_cut = reached is not None and reached.tensors == reached.outside_modules
    return is_cut and loop.trained > 0 and loop.backwards > 1 and not any(use.reached for use in loop.optimizers)


def judge_cut(location: Location, loop: LoopEvidence, evidence: Evidence) -> Verdict | None:
    """What was measured of a part that is cut off at a location; None if it was seen nowhere."""
    for use in loop.optimizers:
        if use.cut_at is not None and use.cut_at.meets(location) and use.steps_on_nothing == use.steps:
            text = f"{use.steps_on_nothing} of {use.steps} steps of `{use.name}` found no gradient"
            return Verdict.confirmed(text, steps=use.steps)
        if use.part_cut_at is not None and use.part_cut_at.meets(location):
            text = f"{use.reached} backward passes reached `{use.name}`, and none all of its modules"
            return Verdict.confirmed(text, reached=use.reached)
    terms, rounded = evidence.first("terms_without_graph"), evidence.first("rounded")
    if terms is not None and terms.meets(location):
        text = f"{loop.terms_without_graph} terms in {loop.backwards} losses are tensors without a history"
        return Verdict.confirmed(text, terms=loop.terms_without_graph)
    if rounded is not None and rounded.meets(location) and has_no_slope(evidence):
        return Verdict.confirmed(f"every gradient of {loop.backwards} backward passes is 0", losses=loop.rounded)
    return None


def has_no_slope(evidence: Evidence) -> bool:
    """Whether all gradients are 0."""
    backward = evidence.backward
    return backward is not None and backward.finite and bool(backward.norms) and not any(backward.norms)


def judge_part(loop: LoopEvidence, reached: ReachedWeights) -> Verdict:
    """Whether the losses depend on all weights of the optimizers."""
    weights, inside = sum(use.tensors for use in loop.optimizers), reached.tensors - reached.outside_optimizers
    text = f"the losses depend on {inside} of {weights} weights of the optimizers"
    return (Verdict.confirmed if inside < weights else Verdict.refuted)(text, reached=inside, weights=weights)


@dataclass(frozen=True, slots=True)
class CutPart:
    """A part of the training that no gradient reaches: where it was cut off, and what to do."""

    location: Location
    message: str
    remedy: str


def cut_parts(evidence: Evidence) -> Iterator[CutPart]:
    """Parts of the training that no gradient reaches, where each was cut off."""
    location = evidence.first("terms_without_graph")
    if location is not None:
        yield CutPart(
            location,
            "a term of the loss is a new tensor, so what computed it gets no gradient",
            "add the loss as it is computed from the outputs",
        )
    uses = evidence.loop.optimizers if evidence.loop is not None else ()
    for use in uses:
        if use.cut_at is not None and use.steps_on_nothing == use.steps and not use.reached:
            yield CutPart(
                use.cut_at,
                f"no gradient flows through here to the weights of `{use.name}`",
                "use the output with its graph in what this optimizer minimizes",
            )
        if use.part_cut_at is not None and use.steps > 1:
            yield CutPart(
                use.part_cut_at,
                "no gradient flows through here, so the module that made it is not trained",
                "use the output with its graph, or leave its parameters out of the optimizer",
            )
    rounded = evidence.first("rounded")
    if rounded is not None and has_no_slope(evidence):
        yield CutPart(
            rounded,
            "the predictions are rounded, which has a gradient of zero",
            "compute the loss from the predictions as they are, and round for metrics alone",
        )
