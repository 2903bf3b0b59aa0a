"""A sigmoid, tanh or ReLU is applied to the logits before cross-entropy.

`cross_entropy` expects logits of any size and sign. A sigmoid or tanh limits them: with ten classes and a sigmoid the
loss cannot fall below 1.46. A ReLU sets all negative logits to zero, and a class whose logit is negative gets no
gradient. No error is raised.

## Bad

    classifier = nn.Sequential(
        nn.Linear(8, 3),
        nn.Sigmoid(),  # <- activation-before-cross-entropy
    )
    optimizer = torch.optim.Adam(classifier.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(classifier(x), y).backward()
        optimizer.step()

A ReLU after the last layer:

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = nn.Linear(8, 32)
            self.output = nn.Linear(32, 3)

        def forward(self, x):
            x = F.relu(self.hidden(x))
            return F.relu(self.output(x))  # <- activation-before-cross-entropy

    classifier = Classifier()
    optimizer = torch.optim.Adam(classifier.parameters())
    criterion = nn.CrossEntropyLoss()
    for x, y in loader:
        optimizer.zero_grad()
        criterion(classifier(x), y).backward()
        optimizer.step()

## Good

    classifier = nn.Sequential(
        nn.Linear(8, 3),
    )
    optimizer = torch.optim.Adam(classifier.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(classifier(x), y).backward()
        optimizer.step()

## When it is fine

The limited logits are scaled again:

    for x, y in loader:
        F.cross_entropy(10 * torch.tanh(net(x)), y).backward()

The activation is followed by another layer:

    classifier = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    for x, y in loader:
        F.cross_entropy(classifier(x), y).backward()

The targets are probabilities:

    for x, y in loader:
        F.cross_entropy(torch.sigmoid(net(x)), F.one_hot(y, 3).float()).backward()

## Fix

None: the activation may be meant for another loss.

## References

PyTorch documentation, `torch.nn.CrossEntropyLoss`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lintrain.analysis import distributions, loop_verdicts
from lintrain.pipeline.values.tensors import Operation
from lintrain.pipeline.values.training import LossCall
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, dataclass

if TYPE_CHECKING:
    from lintrain.evidence.run import LossEvidence

RANGES = {
    "sigmoid": (0.0, 1.0),
    "hardsigmoid": (0.0, 1.0),
    "tanh": (-1.0, 1.0),
    "hardtanh": (-1.0, 1.0),
    "relu": (0.0, float("inf")),
    "relu6": (0.0, 6.0),
}
"""The least and the greatest output of each activation."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The activation before the loss."""

    activation: str


class ActivationBeforeCrossEntropy(Rule[Claim]):
    level = Level.WARNING
    keywords = "cross_entropy|CrossEntropyLoss|Categorical("
    needs_training = False
    judges_networks = True

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        found: dict[Location, Finding[Claim]] = {}
        for loss in loop_verdicts.losses_called(pipeline, "cross_entropy"):
            if loop_verdicts.has_soft_targets(loss):
                continue
            certain = loop_verdicts.operations_before(loss, *RANGES)
            for made in certain or loop_verdicts.operations_of_a_choice(pipeline, loss, *RANGES):
                if made.location is not None:
                    found.setdefault(made.location, self._report(made, made.location, loss))
        for limited in distributions.limited_logits(pipeline.source):
            found.setdefault(limited.location, self._report_policy(limited))
        yield from found.values()

    def _report_policy(self, limited: distributions.LimitedLogits) -> Finding[Claim]:
        return self.finding(
            limited.location,
            f"{limited.activation} limits the logits of `{limited.distribution}`",
            related=[Related(limited.used, "a distribution expects logits of any size and sign", "distribution")],
            help=f"remove the {limited.activation} after the last layer",
            claim=Claim(limited.activation),
        )

    def _report(self, made: Operation, location: Location, loss: LossCall) -> Finding[Claim]:
        return self.finding(
            location,
            f"{made.name} limits the logits of `{loop_verdicts.callee_of(loss)}`",
            related=[Related(loss.location, "cross-entropy expects logits of any size and sign", "loss")],
            help=f"remove the {made.name} after the last layer",
            claim=Claim(made.name),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        for loss in evidence.losses_of("cross_entropy"):
            activation = loss.made_by.lower()
            if loss.location is not None and activation in RANGES:
                yield self.finding(
                    loss.location,
                    f"the scores of this cross-entropy come from a `{activation}`",
                    help="give the loss what the last linear layer returns",
                    claim=Claim(activation),
                )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        claim = finding.claim
        if claim is None or not evidence.sees_losses:
            return Verdict.inconclusive(evidence.without_loop)
        for loss in evidence.losses_of("cross_entropy"):
            if loss.input_minimum is None or loss.input_maximum is None:
                continue
            text = f"inputs of `cross_entropy` range from {loss.input_minimum:.3g} to {loss.input_maximum:.3g}"
            verdict = Verdict.confirmed if _is_inside(loss, claim.activation) else Verdict.refuted
            return verdict(text, minimum=loss.input_minimum, maximum=loss.input_maximum)
        return Verdict.inconclusive(
            f"none of {len(evidence.called_losses)} losses in the first batch is a cross-entropy"
        )


def _is_inside(loss: LossEvidence, activation: str) -> bool:
    """Whether all inputs of a loss are in the range of an activation."""
    least, most = RANGES[activation]
    return least <= (loss.input_minimum or 0.0) and (loss.input_maximum or 0.0) <= most
