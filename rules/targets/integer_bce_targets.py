"""Binary cross-entropy gets integer targets.

Binary cross-entropy needs floating-point targets, but class labels in datasets are int64. The first batch raises a
RuntimeError.

## Bad

    answers = torch.randint(0, 2, (96, 1))
    classifier = nn.Linear(8, 1)
    optimizer = torch.optim.Adam(classifier.parameters())
    for x, y in DataLoader(TensorDataset(torch.randn(96, 8), answers), batch_size=16):
        optimizer.zero_grad()
        loss = F.binary_cross_entropy_with_logits(classifier(x), y)  # <- integer-bce-targets
        loss.backward()
        optimizer.step()

    # raises result type Float can't be cast to the desired output type Long

## Good

    answers = torch.randint(0, 2, (96, 1))
    classifier = nn.Linear(8, 1)
    optimizer = torch.optim.Adam(classifier.parameters())
    for x, y in DataLoader(TensorDataset(torch.randn(96, 8), answers), batch_size=16):
        optimizer.zero_grad()
        loss = F.binary_cross_entropy_with_logits(classifier(x), y.float())
        loss.backward()
        optimizer.step()

## When it is fine

Targets that are converted, or of unknown dtype:

    from my_data import make_loader

    classifier = nn.Linear(8, 1)
    for x, y in make_loader():
        F.binary_cross_entropy_with_logits(classifier(x), y).backward()
        F.binary_cross_entropy_with_logits(classifier(x), y.to(torch.float32)).backward()

    answers = torch.randint(0, 2, (96, 1)).type(torch.float32)
    for x, y in DataLoader(TensorDataset(torch.randn(96, 8), answers), batch_size=16):
        F.binary_cross_entropy_with_logits(classifier(x), y).backward()

## Fix

Safe: with integer targets the loss raises an error.

## References

PyTorch documentation, `torch.nn.BCEWithLogitsLoss`; pytorch#45373.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import loop_verdicts
from lintrain.pipeline.values.model import Tensor
from lintrain.pipeline.values.training import LossCall
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, fixes, lazy_pattern

BINARY = ("binary_cross_entropy", "binary_cross_entropy_with_logits")
CALLABLE = lazy_pattern(r"[\w.]+(\(.*\))?", re.DOTALL)
"""Code to which a method call can be appended."""


class IntegerBceTargets(Rule):
    level = Level.ERROR
    keywords = "binary_cross_entropy|BCELoss|BCEWithLogitsLoss"
    needs_training = False
    judges_networks = True

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        found: dict[Location, Finding] = {}
        for loss in loop_verdicts.losses_called(pipeline, *BINARY):
            targets = loop_verdicts.tensors_given(loss, "target")
            if targets and loop_verdicts.tensors_given(loss) and all(target.kind == "int" for target in targets):
                found.setdefault(loss.location, self._report(loss, targets[0]))
        yield from found.values()

    def _report(self, loss: LossCall, target: Tensor) -> Finding:
        related: list[Related] = []
        if target.made is not None and target.made.location is not None:
            related.append(Related(target.made.location, "integer targets are created here", "made"))
        if loss.target is not None and CALLABLE.fullmatch(loss.target.text):
            code = f"{loss.target.text}.float()"
            related.append(Related(loss.target.location, "integers", "target", code))
        return self.finding(
            loss.location,
            f"`{loop_verdicts.callee_of(loss)}` gets integer targets, but needs floats",
            related=related,
            help="convert the targets with `.float()`",
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        losses = evidence.losses_of(*BINARY)
        for loss in losses:
            if loss.location is not None and loss.value is None and "float" not in loss.target_dtype:
                yield self.finding(
                    loss.location,
                    f"`{loss.function}` gets targets of {loss.target_dtype}, but needs floats",
                    help="convert the targets with `.float()`",
                )
                return

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        if not evidence.sees_losses:
            return Verdict.inconclusive(evidence.without_loop)
        losses = evidence.losses_of(*BINARY)
        for loss in losses:
            if loss.value is None and "float" not in loss.target_dtype:
                return Verdict.confirmed(f"`{loss.function}` raised for targets of {loss.target_dtype}")
        if losses:
            return Verdict.refuted(f"targets of `{losses[0].function}` are {losses[0].target_dtype}")
        return Verdict.inconclusive(
            f"none of {len(evidence.called_losses)} losses in the first batch is a binary cross-entropy"
        )

    def fix(self, finding: Finding) -> fixes.Fix | None:
        edits = [fixes.Replace(each.location, each.text) for each in finding.with_role("target")]
        return fixes.Fix.of("convert the targets to float", *edits, safe=True) if edits else None
