"""The Kullback-Leibler divergence is averaged over the classes too.

`kl_div` divides by the number of all values by default, not by the number of rows. The divergence is too small by the
number of classes, so that in a sum of losses its weight hardly counts. PyTorch warns about it at run time.

## Bad

    teacher = nn.Linear(8, 3)
    for x, y in loader:
        optimizer.zero_grad()
        student = F.log_softmax(net(x), dim=1)
        loss = F.kl_div(student, F.softmax(teacher(x), dim=1))  # <- kl-div-reduction
        loss.backward()
        optimizer.step()

As a module:

    teacher = nn.Linear(8, 3)
    divergence = nn.KLDivLoss()
    for x, y in loader:
        optimizer.zero_grad()
        student = F.log_softmax(net(x), dim=1)
        loss = criterion(net(x), y) + divergence(student, F.softmax(teacher(x), dim=1))  # <- kl-div-reduction
        loss.backward()
        optimizer.step()

## Good

    teacher = nn.Linear(8, 3)
    for x, y in loader:
        optimizer.zero_grad()
        student = F.log_softmax(net(x), dim=1)
        loss = F.kl_div(student, F.softmax(teacher(x), dim=1), reduction="batchmean")
        loss.backward()
        optimizer.step()

and

    teacher = nn.Linear(8, 3)
    divergence = nn.KLDivLoss(reduction="batchmean")
    for x, y in loader:
        optimizer.zero_grad()
        student = F.log_softmax(net(x), dim=1)
        loss = criterion(net(x), y) + divergence(student, F.softmax(teacher(x), dim=1))
        loss.backward()
        optimizer.step()

## When it is fine

The mean is multiplied by the number of classes, or written out:

    teacher = nn.Linear(8, 3)
    for x, y in loader:
        optimizer.zero_grad()
        student = F.log_softmax(net(x), dim=1)
        loss = F.kl_div(student, F.softmax(teacher(x), dim=1)) * student.size(1)
        loss = loss + F.kl_div(student, F.softmax(teacher(x), dim=1), reduction="mean")
        loss.backward()
        optimizer.step()

## Fix

None: the weight of the divergence may have been chosen for the small value.

## References

PyTorch documentation, `torch.nn.KLDivLoss` (`reduction="batchmean"` is the mathematical definition); the fix in
`namisan/mt-dnn`, commit c0de41144a3c.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import averages, loop_verdicts
from lintrain.pipeline.values.training import LossCall
from lintrain.rule import Evidence, Finding, Level, OddCallRule, Pipeline, Verdict, lazy_pattern, one_per_location


class KlDivReduction(OddCallRule):
    level = Level.WARNING
    odd = "mean over classes"
    odd_message = "this divergence is averaged over the classes, not only over the rows"
    odd_help = 'pass `reduction="batchmean"`, which divides by the number of rows'
    keywords = "kl_div|KLDivLoss"
    needs_training = False
    judges_networks = True

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        losses = loop_verdicts.losses_called(pipeline, "kl_div", "KLDivLoss")
        yield from one_per_location(self._report(loss) for loss in losses if _is_over_classes(pipeline, loss))

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        verdict, calls = super().verify(finding, evidence), len(evidence.losses_of("kl_div"))
        if verdict.outcome != "refuted" or calls:
            return verdict
        return Verdict.inconclusive("no divergence was computed in the first batch", calls=calls)

    def _report(self, loss: LossCall) -> Finding:
        return self.finding(
            loss.location,
            f"`{loop_verdicts.callee_of(loss)}` is averaged over the classes, not only over the rows",
            help='pass `reduction="batchmean"`, which divides by the number of rows',
        )


OF_ACTIONS = lazy_pattern(
    r"(?i)\bact(?:ion)?s?_log_?probs?|\b(?:old|new)_(?:act(?:ion)?s?_)?log_?probs?|\.log_probs?\("
)
"""Probabilities of the actions that were taken: one number for each row, and no classes."""


def _is_over_classes(pipeline: Pipeline, loss: LossCall) -> bool:
    """Whether a divergence is a mean over all values that have classes, and is not multiplied by their number."""
    if any(given is not None and OF_ACTIONS.search(given.text) for given in (loss.prediction, loss.target)):
        return False
    ranks = [tensor.shape.rank for tensor in loop_verdicts.tensors_given(loss)]
    if "reduction" in loss.options:
        return False  # who writes `reduction="mean"` has chosen it
    is_one_row = bool(ranks) and all(rank is not None and rank < 2 for rank in ranks)
    return averages.is_mean(loss) and not is_one_row and not averages.is_multiplied_by_size(pipeline, loss.location)
