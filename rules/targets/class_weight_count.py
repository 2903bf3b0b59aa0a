"""The loss has class weights for another number of classes than the network gives, or whole numbers as weights.

A cross-entropy with `weight` needs one number for each class of its input, of the type of its input. With more or
fewer, or with whole numbers, it raises a RuntimeError at the first batch.

## Bad

    weighted = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0]))
    for x, y in loader:
        optimizer.zero_grad()
        weighted(net(x), y).backward()  # <- class-weight-count
        optimizer.step()

    # raises RuntimeError: weight tensor should be defined either for all 3 classes or no classes

and

    weighted = nn.CrossEntropyLoss(weight=torch.tensor([1, 2, 2]))
    for x, y in loader:
        optimizer.zero_grad()
        weighted(net(x), y).backward()  # <- class-weight-count
        optimizer.step()

    # raises RuntimeError: expected scalar type Float but found Long

## Good

    weighted = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 2.0]))
    for x, y in loader:
        optimizer.zero_grad()
        weighted(net(x), y).backward()
        optimizer.step()

## When it is fine

The number of weights is that of the labels, which the script counts:

    counts = torch.bincount(targets)
    weighted = nn.CrossEntropyLoss(weight=1.0 / counts)
    for x, y in loader:
        optimizer.zero_grad()
        weighted(net(x), y).backward()
        optimizer.step()

## Fix

None: either the weights or the layer may be wrong.

## References

PyTorch documentation, `torch.nn.CrossEntropyLoss`: `weight` has to be a tensor of size C.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import keras_runs
from lintrain.pipeline.values.model import Model, Tensor
from lintrain.pipeline.values.python import Mapping, Sequence, Value, literal
from lintrain.pipeline.values.training import LossCall
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, one_per_location

RAISED = ("weight tensor should be defined", "expected scalar type Float but found Long")
WEIGHTED = frozenset({"cross_entropy", "nll_loss"})


class ClassWeightCount(Rule):
    level = Level.ERROR
    keywords = "cross_entropy|CrossEntropyLoss|nll_loss|NLLLoss|class_weight"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(found for call in pipeline.losses if (found := self._judge(call)) is not None)
        for run in pipeline.keras_runs:
            units = keras_runs.output_units(run)
            for _, arguments in run.fits if units is not None and units > 1 else ():
                weights = arguments.get("class_weight")
                if weights is not None and units is not None and (wrong := _misses(weights.value, units)):
                    yield self._report_keras(weights.location, wrong, units)

    def _report_keras(self, location: Location, wrong: int, units: int) -> Finding:
        return self.finding(
            location,
            f"`class_weight` has {wrong} classes, but the network gives scores of {units}",
            help="give a weight for each output; for several labels per row, weight the terms in the loss",
        )

    def _judge(self, call: LossCall) -> Finding | None:
        # The first setting of the module; a function gets its input there.
        weight = call.options.get("weight", None if "input" in call.options else call.options.get("0"))
        if call.name not in WEIGHTED or weight is None or call.prediction is None:
            return None
        if isinstance(weight, Tensor) and weight.kind == "int":
            return self._report_whole(call, weight)
        if isinstance(weight, Tensor) and (weight.shape.rank or 0) > 1:
            return self._report_axes(call, weight)
        count, classes = _length_of(weight), _classes_of(call.prediction.value)
        if count is None or classes is None or count == classes:
            return None
        made = [Related(weight.origin, f"{count} weights", "weights")] if weight.origin else []
        return self.finding(
            call.location,
            f"the loss has {count} class weights, but gets scores of {classes} classes",
            related=made,
            help=f"pass {classes} weights, one for each class",
        )

    def _report_axes(self, call: LossCall, weight: Tensor) -> Finding:
        return self.finding(
            call.location,
            f"the class weights have shape {weight.shape}, but the loss takes one axis of them",
            related=[Related(weight.origin, "weights with several axes", "weights")] if weight.origin else [],
            help="pass one number for each class: `torch.tensor([1.0, 2.0])`",
        )

    def _report_whole(self, call: LossCall, weight: Tensor) -> Finding:
        return self.finding(
            call.location,
            "the class weights are whole numbers, but the loss multiplies floats by them",
            related=[Related(weight.origin, "whole numbers", "weights")] if weight.origin else [],
            help="make them floats: `torch.tensor([1.0, 2.0])`, or `.float()`",
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        if location := evidence.failed_place(*RAISED):
            yield self.finding(
                location,
                "the loss refuses its class weights: their number, or their type",
                help="pass one weight for each class, as floats",
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        if (stage := evidence.failed_with(*RAISED)) is not None:
            return Verdict.confirmed(f"the {stage.name} stage failed: 1 loss refused its weights")
        loop = evidence.loop
        if loop is None or not loop.steps:
            return Verdict.inconclusive(evidence.without_loop)
        return Verdict.refuted(f"{loop.steps} steps ran with these weights", steps=loop.steps)


def _misses(weights: Value, units: int) -> int | None:
    """The number of classes that have a weight, if these cannot be those of the outputs; None if they can be."""
    if not isinstance(weights, Mapping) or not weights.is_complete:
        return None
    keys = [key for key in weights.entries if isinstance(key, int) and not isinstance(key, bool)]
    is_numbered = bool(keys) and len(keys) == len(weights.entries) and sorted(keys) == list(range(len(keys)))
    return len(keys) if is_numbered and len(keys) != units else None


def _length_of(weight: Value) -> int | None:
    """The number of weights, if all of them are in one axis."""
    if isinstance(weight, Sequence):
        return len(weight.items) if weight.is_complete else None
    return weight.shape.last if isinstance(weight, Tensor) and weight.shape.rank == 1 else None


def _classes_of(scores: Value) -> int | None:
    """The number of classes that scores are for: the second axis of a batch, or the labels of a model."""
    if not isinstance(scores, Tensor):
        return None
    sizes = scores.shape.sizes
    if scores.shape.is_open and len(sizes) == 1 and scores.made is not None and scores.made.name == "linear":
        return sizes[0]
    if scores.shape.rank is not None and len(sizes) > 1:
        return sizes[1] if (sizes[1] or 0) > 0 else None
    labels = literal(scores.model.num_labels) if isinstance(scores.model, Model) and not sizes else None
    return labels if isinstance(labels, int) and labels > 1 else None
