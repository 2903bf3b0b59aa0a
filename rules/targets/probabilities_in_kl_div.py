"""`kl_div` gets probabilities where it expects log-probabilities, or the other way round.

The first argument of `kl_div` are log-probabilities, the second probabilities (log-probabilities with
`log_target=True`). Otherwise the value is no divergence: it is negative, or does not become 0 for equal distributions,
and its gradient pulls the network elsewhere. No error is raised.

## Bad

    teacher = nn.Linear(8, 3)
    for x, y in loader:
        optimizer.zero_grad()
        student = F.softmax(net(x), dim=1)
        loss = F.kl_div(student, F.softmax(teacher(x), dim=1), reduction="batchmean")  # <- probabilities-in-kl-div
        loss.backward()
        optimizer.step()

A target of log-probabilities:

    teacher = nn.Linear(8, 3)
    divergence = nn.KLDivLoss(reduction="batchmean")
    for x, y in loader:
        optimizer.zero_grad()
        student = F.log_softmax(net(x), dim=1)
        loss = divergence(student, F.log_softmax(teacher(x), dim=1))  # <- probabilities-in-kl-div
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
    divergence = nn.KLDivLoss(reduction="batchmean", log_target=True)
    for x, y in loader:
        optimizer.zero_grad()
        student = F.log_softmax(net(x), dim=1)
        loss = divergence(student, F.log_softmax(teacher(x), dim=1))
        loss.backward()
        optimizer.step()

## When it is fine

A logarithm follows the softmax:

    teacher = nn.Linear(8, 3)
    for x, y in loader:
        optimizer.zero_grad()
        student = F.softmax(net(x), dim=1).log()
        loss = F.kl_div(student, F.softmax(teacher(x), dim=1), reduction="batchmean")
        loss.backward()
        optimizer.step()

## Fix

None: the wrong one of the two may be the softmax or the loss.

## References

PyTorch documentation, `torch.nn.KLDivLoss`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lintrain.analysis import loop_verdicts
from lintrain.pipeline.values.python import ABSENT, literal
from lintrain.pipeline.values.training import LossCall
from lintrain.rule import Evidence, Finding, Level, Pipeline, Rule, Verdict, one_per_location

if TYPE_CHECKING:
    from lintrain.evidence.run import LossEvidence

HELP = "pass `log_softmax` of the prediction, and `softmax` of the target"
NEAR = 1e-3
NOT_LOGS = {"softmax": "probabilities", "sigmoid": "probabilities", "linear": "logits"}
LOGS = frozenset({"log_softmax", "logsigmoid"})


class ProbabilitiesInKlDiv(Rule):
    level = Level.ERROR
    keywords = "kl_div|KLDivLoss"
    needs_training = False
    judges_networks = True

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        losses = loop_verdicts.losses_called(pipeline, "kl_div", "KLDivLoss")
        yield from one_per_location(self._report(loss, problem) for loss in losses if (problem := _problem(loss)))

    def _report(self, loss: LossCall, problem: str) -> Finding:
        return self.finding(
            loss.location,
            f"`{loop_verdicts.callee_of(loss)}` expects {problem}",
            help=HELP,
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        for loss in evidence.losses_of("kl_div"):
            if fault := _fault(loss):
                yield self.finding(loss.location or evidence.location, f"`kl_div` expects {fault}", help=HELP)

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        losses = evidence.losses_of("kl_div")
        for loss in losses:
            if _fault(loss):
                inputs = f"inputs from {loss.input_minimum or 0.0:.3g} to {loss.input_maximum or 0.0:.3g}"
                targets = f"targets from {loss.target_minimum or 0.0:.3g} to {loss.target_maximum or 0.0:.3g}"
                return Verdict.confirmed(f"the first loss got {inputs}, and {targets}", inputs=loss.input_maximum)
        if losses:
            return Verdict.refuted("no input is above 0 and no target below 0", calls=len(losses))
        return Verdict.inconclusive("no divergence was computed in the first batch, 0 calls")


def _fault(loss: LossEvidence) -> str:
    """What a divergence expects and did not get, by its numbers; empty if they may be right.

    A network's log-probabilities are at most 0, and probabilities at least 0.
    """
    if loss.gives_probabilities:
        return "log-probabilities, but gets probabilities"
    if (loss.input_maximum or 0.0) > NEAR and (loss.input_minimum or 0.0) < -NEAR:
        return "log-probabilities, but gets values above and below 0"
    are_logs = (loss.target_maximum or 0.0) <= 0.0 and (loss.target_minimum or 0.0) < -NEAR
    return "probabilities as target, but gets log-probabilities" if are_logs and not loss.log_target else ""


def _problem(loss: LossCall) -> str:
    """What a divergence expects and does not get; empty if that is not certain."""
    made = loop_verdicts.operations_before(loss, *NOT_LOGS)
    if made:
        return f"log-probabilities, but gets {NOT_LOGS[made[0].name]}"
    targets = loop_verdicts.tensors_given(loss, "target")
    are_logs = bool(targets) and all(each.made is not None and each.made.name in LOGS for each in targets)
    is_plain = (
        not loss.options.keys() & {"log_target", "**"} or literal(loss.options.get("log_target", ABSENT)) is False
    )
    return "probabilities as target, but gets log-probabilities" if are_logs and is_plain else ""
