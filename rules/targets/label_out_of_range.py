"""The labels have numbers that the network has no score for.

A cross-entropy takes a label as the position of a score. A label of -1, or one as large as the number of scores, raises
an IndexError on a CPU and stops the GPU with an assertion. Labels that count from 1 need one to be subtracted. Losses
that expect 1 and -1, such as `CosineEmbeddingLoss`, raise no error for 0, and learn nothing from it.

## Bad

    labels = torch.randint(1, 4, (96,))
    for epoch in range(3):
        optimizer.zero_grad()
        criterion(net(features), labels).backward()  # <- label-out-of-range
        optimizer.step()

    # raises IndexError: Target 3 is out of bounds

## Good

    labels = torch.randint(1, 4, (96,))
    for epoch in range(3):
        optimizer.zero_grad()
        criterion(net(features), labels - 1).backward()
        optimizer.step()

## When it is fine

The label that the loss ignores, and a network with more scores than labels:

    labels = torch.tensor([0, 1, -100])
    for epoch in range(3):
        optimizer.zero_grad()
        criterion(net(features[:3]), labels).backward()
        optimizer.step()

## Fix

None: either the labels or the last layer may be wrong.

## References

PyTorch documentation, `torch.nn.CrossEntropyLoss`: a target is a class index in [0, C).
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import label_ranges, loop_verdicts, signed_targets
from lintrain.pipeline.values.model import Tensor
from lintrain.pipeline.values.python import ABSENT, literal
from lintrain.pipeline.values.training import LossCall
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, one_per_location

RAISED = ("IndexError: Target ", "t >= 0 && t < n_classes")
"""Errors about a label; one about the row of a data set or an axis is out of bounds as well."""


class LabelOutOfRange(Rule):
    level = Level.ERROR
    keywords = "cross_entropy|CrossEntropyL|nll_loss|NLLLoss|BCE|rcnn|RCNN|EmbeddingLoss|Margin|embedding_loss|margin"
    needs_training = False
    judges_networks = True

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        losses = loop_verdicts.losses_called(pipeline, "cross_entropy", "nll_loss")
        yield from one_per_location(found for loss in losses if (found := self._judge(pipeline, loss)) is not None)
        losses = loop_verdicts.losses_called(pipeline, "binary_cross_entropy", "binary_cross_entropy_with_logits")
        yield from one_per_location(
            found for loss in losses if (found := self._judge_pixels(pipeline, loss)) is not None
        )

        yield from map(self._report_background, label_ranges.without_background(pipeline.source))
        yield from map(self._report_unsigned, signed_targets.unsigned(pipeline.source))

    def _report_unsigned(self, found: signed_targets.Unsigned) -> Finding:
        return self.finding(
            found.location,
            f"`{found.loss}` expects targets of 1 and -1, and gets 0",
            related=[Related(found.made, "the targets come from here", "signs")],
            help="write `2 * target - 1`, or -1 where the target is 0",
        )

    def _report_background(self, found: label_ranges.NoBackground) -> Finding:
        return self.finding(
            found.location,
            f"`{found.code}` counts no background, which is class 0 of a detector",
            related=[Related(found.names, "no name is that of the background", "names")],
            help=f"pass `{found.code} + 1`, and count labels from 1",
        )

    def _judge_pixels(self, pipeline: Pipeline, loss: LossCall) -> Finding | None:
        source = pipeline.source_of(loss.location)
        found = label_ranges.negative_pixels(source, loss.target.location) if loss.target else None
        if found is None:
            return None
        return self.finding(
            loss.location,
            f"pixels of `{found.name}` go below 0, but these targets are from 0 to 1",
            related=[Related(found.normalized, "moves the pixels below 0", "normalized")],
            help="leave `Normalize` out, or compare with `(images + 1) / 2`",
        )

    def _judge(self, pipeline: Pipeline, loss: LossCall) -> Finding | None:
        given = loop_verdicts.tensors_given(loss)
        targets = loop_verdicts.tensors_given(loss, "target")
        classes = {_classes_of(each) for each in given}
        ranges = {
            label_ranges.range_of(pipeline, each, literal(loss.options.get("ignore_index", ABSENT))) for each in targets
        }
        if len(classes) != 1 or len(ranges) != 1:
            return None
        (count,), (found,) = classes, ranges
        if count is None or found is None or (found.least >= 0 and found.most < count):
            return None
        return self.finding(
            loss.location,
            f"labels go from {found.least} to {found.most}, but there are scores of {count} classes",
            related=[Related(found.made, "the labels come from here", "labels")],
            help=f"labels have to be 0 to {count - 1}, or the last layer needs more outputs",
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        if location := evidence.failed_place(*RAISED):
            yield self.finding(location, "a label has a number that the network has no score for")

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        stage = evidence.failed_with(*RAISED)
        if stage is not None and stage.failure is not None:
            return Verdict.confirmed(f"the {stage.name} stage failed: `{stage.failure.message.splitlines()[0]}`")
        loop = evidence.loop
        if finding.with_role("signs"):
            return Verdict.inconclusive("the targets of this loss are not measured")
        if loop is None or not loop.steps:
            return Verdict.inconclusive(evidence.without_loop)
        return Verdict.refuted(f"{loop.steps} steps ran with these labels", steps=loop.steps)

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        # That rule has compared the labels with the outputs, and says which of them are too few.
        return cause.rule == "missing-num-labels" or super().follows_from(finding, verdict, cause)


def _classes_of(scores: Tensor) -> int | None:
    """The number of classes that a batch of scores is for."""
    sizes = scores.shape.sizes
    if scores.shape.is_open and len(sizes) == 1 and scores.made is not None and scores.made.name == "linear":
        return sizes[0]
    classes = sizes[1] if (scores.shape.rank or 0) > 1 and len(sizes) > 1 else None
    return classes if (classes or 0) > 0 else None
