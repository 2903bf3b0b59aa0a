"""`ignore_index` is one of two classes, so the loss only counts the rows of the other one.

With two classes and one of them ignored, a network that always predicts the other class has the smallest loss. Often
the criterion was made for tokens, whose padding has the index 0, and is used for a second head as well.

## Bad

    head = nn.Linear(8, 2)
    optimizer = torch.optim.Adam(head.parameters())
    criterion = nn.CrossEntropyLoss(ignore_index=0)
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(head(x), y % 2)  # <- ignored-class
        loss.backward()
        optimizer.step()

## Good

    head = nn.Linear(8, 2)
    optimizer = torch.optim.Adam(head.parameters())
    criterion = nn.CrossEntropyLoss()
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(head(x), y % 2)
        loss.backward()
        optimizer.step()

## When it is fine

The ignored index is none of the classes:

    head = nn.Linear(8, 2)
    optimizer = torch.optim.Adam(head.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(head(x), y % 2, ignore_index=-1).backward()
        optimizer.step()

## Fix

None: the criterion may be right for another output.

## References

PyTorch documentation, `torch.nn.CrossEntropyLoss`; the fix in `codertimo/BERT-pytorch`, commit 2a0b28218f4f.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import loop_verdicts
from lintrain.pipeline.values.python import Constant, literal
from lintrain.pipeline.values.training import LossCall
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, one_per_location

TWO = 2
HELP = "use a criterion without `ignore_index` here"


class IgnoredClass(Rule):
    level = Level.ERROR
    keywords = "ignore_index"
    needs_training = False
    judges_networks = True

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        losses = loop_verdicts.losses_called(pipeline, "cross_entropy", "nll_loss")
        yield from one_per_location(self._report(loss, index) for loss in losses if (index := _ignored(loss)) != "")

    def _report(self, loss: LossCall, index: str) -> Finding:
        set_at = loss.options["ignore_index"].origin
        return self.finding(
            loss.location,
            f"class {index} of two is ignored, so only class {'1' if index == '0' else '0'} counts",
            related=[Related(set_at, "the ignored index", "index")] if set_at else [],
            help=HELP,
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        for loss in evidence.losses_of("cross_entropy", "nll_loss"):
            if loss.classes == TWO and loss.ignored_index in (0, 1):
                yield self.finding(
                    loss.location or evidence.location,
                    f"class {loss.ignored_index} of two is ignored, so only class {1 - loss.ignored_index} counts",
                    help=HELP,
                )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        if not evidence.sees_losses:
            return Verdict.inconclusive(evidence.without_loop)
        losses = evidence.losses_of("cross_entropy", "nll_loss")
        ignoring = [each for each in losses if each.classes == TWO and each.ignored_index in (0, 1) and each.ignored]
        for loss in ignoring:
            share = loss.ignored or 0.0
            return Verdict.confirmed(f"{share:.0%} of the targets of a loss over 2 classes are ignored", ignored=share)
        if not losses or any(each.classes == TWO and each.ignored_index in (0, 1) for each in losses):
            return Verdict.inconclusive(f"none of {len(losses)} losses over classes ignored a target")
        return Verdict.refuted(f"none of {len(losses)} losses over classes ignores one of two", losses=len(losses))


def _ignored(loss: LossCall) -> str:
    """The class that a loss over two classes ignores; empty if it ignores none."""
    given = loss.options.get("ignore_index")
    tensors = loop_verdicts.tensors_given(loss)
    is_binary = bool(tensors) and all(tensor.shape.last == TWO for tensor in tensors)
    is_class = isinstance(given, Constant) and not given.may_differ and literal(given) in {0, 1}
    return str(literal(given)) if is_binary and is_class and given is not None else ""
