"""Cross-entropy gets a single column of logits.

Softmax over one class is always 1, so the loss is 0 for class 0 and has no gradient: nothing is trained. For class 1
PyTorch raises an error. A network for two classes has two outputs with `CrossEntropyLoss`, or one output with
`BCEWithLogitsLoss`.

## Bad

    classifier = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(classifier.parameters())
    criterion = nn.CrossEntropyLoss()
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(classifier(x), torch.zeros(len(x)).long())  # <- single-class-cross-entropy
        loss.backward()
        optimizer.step()

Float targets of the same shape raise no error for either class:

    classifier = nn.Linear(8, 1)
    optimizer = torch.optim.Adam(classifier.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(classifier(x), (y == 0).float().unsqueeze(1))  # <- single-class-cross-entropy
        loss.backward()
        optimizer.step()

## Good

    classifier = nn.Linear(8, 1)
    optimizer = torch.optim.Adam(classifier.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.binary_cross_entropy_with_logits(classifier(x), (y == 0).float().unsqueeze(1))
        loss.backward()
        optimizer.step()

With two outputs:

    classifier = nn.Linear(8, 2)
    optimizer = torch.optim.Adam(classifier.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(classifier(x), (y == 0).long())
        loss.backward()
        optimizer.step()

## When it is fine

The scores of several candidates are one row:

    scorer = nn.Linear(8, 1)
    for x, y in loader:
        F.cross_entropy(scorer(x.unsqueeze(1).expand(-1, 3, -1)).squeeze(-1), y).backward()

The number of outputs is unknown:

    import sys

    classifier = nn.Linear(8, int(sys.argv[1]) if len(sys.argv) > 1 else 3)
    for x, y in loader:
        F.cross_entropy(classifier(x), y).backward()

## Fix

None: both another loss and another number of outputs are reasonable.

## References

PyTorch documentation, `torch.nn.CrossEntropyLoss` and `torch.nn.BCEWithLogitsLoss`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import loop_verdicts
from lintrain.pipeline.values.model import Tensor
from lintrain.pipeline.values.training import LossCall
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Rule,
    Source,
    Targets,
    Verdict,
    lazy_pattern,
)

LOSSES = lazy_pattern(r"cross_entropy|CrossEntropy|BCE|mse_loss|MSE")
"""The losses that a single class makes useless."""


class SingleClassCrossEntropy(Rule):
    level = Level.ERROR
    keywords = "cross_entropy|CrossEntropyLoss|softmax|Softmax"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return source.contains(LOSSES)

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        found: dict[Location, Finding] = {}
        for loss in loop_verdicts.losses_called(pipeline, "cross_entropy"):
            predictions, targets = loop_verdicts.tensors_given(loss), loop_verdicts.tensors_given(loss, "target")
            if predictions and all(_is_column(each, targets) for each in predictions):
                found.setdefault(loss.location, self._report(loss, predictions[0]))
        for loss in loop_verdicts.losses_called(pipeline, "binary_cross_entropy", "mse_loss", "cross_entropy"):
            for logits in loop_verdicts.tensors_given(loss):
                if logits.made and logits.made.name == "softmax" and logits.shape.last == 1:
                    found.setdefault(loss.location, self._report_softmax(loss, logits))
        yield from found.values()

    def _report_softmax(self, loss: LossCall, outputs: Tensor) -> Finding:
        made = outputs.made.location if outputs.made else None
        return self.finding(
            made or loss.location,
            "softmax over one output is always 1",
            related=[Related(loss.location, "gets the same number for each row", "loss")],
            help="use a sigmoid, or a last layer with two outputs",
        )

    def _report(self, loss: LossCall, logits: Tensor) -> Finding:
        made = logits.made.location if logits.made else None
        return self.finding(
            loss.location,
            f"`{loop_verdicts.callee_of(loss)}` gets one class, so the loss is always 0",
            related=[Related(made, "returns a single column", "logits")] if made else [],
            help="use `BCEWithLogitsLoss` with float targets, or a last layer with two outputs",
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        for loss in evidence.losses_of("cross_entropy"):
            if loss.location is not None and len(loss.input_shape) > 1 and loss.input_shape[1] == 1:
                yield self.finding(
                    loss.location,
                    "a cross-entropy over one class is always 0",
                    help="use `binary_cross_entropy_with_logits`, or two outputs",
                )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        if not evidence.sees_losses:
            return Verdict.inconclusive(evidence.without_loop)
        for loss in evidence.losses_of("cross_entropy"):
            if len(loss.input_shape) < 2:
                continue
            classes = loss.input_shape[1]
            verdict = Verdict.confirmed if classes == 1 else Verdict.refuted
            return verdict(f"inputs of `cross_entropy` have shape {loss.input_shape}", classes=classes)
        return Verdict.refuted(
            f"none of {len(evidence.called_losses)} losses in the first batch is a cross-entropy over a batch"
        )


def _is_column(logits: Tensor, targets: tuple[Tensor, ...]) -> bool:
    """Whether logits are certainly `(N, 1)`: by their own rank, or because there is one class index for each row."""
    if logits.shape.last != 1:
        return False
    if logits.shape.rank is not None:
        return logits.shape.rank == 2
    if logits.made is not None and logits.made.name == "linear" and not logits.is_reshaped:
        return not targets
    return bool(targets) and all(target.shape.rank == 1 and target.kind == "int" for target in targets)
