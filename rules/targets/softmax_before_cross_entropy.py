"""The network ends with a softmax, and the loss applies softmax again.

`cross_entropy` expects logits and normalizes them itself. After a second softmax no class can get a probability near 1:
with ten classes the loss cannot fall below 1.46, the gradients are small, and the network learns slowly. No error is
raised.

## Bad

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = nn.Linear(8, 32)
            self.output = nn.Linear(32, 3)

        def forward(self, x):
            x = self.output(F.relu(self.hidden(x)))
            return F.softmax(x, dim=1)  # <- softmax-before-cross-entropy

    classifier = Classifier()
    optimizer = torch.optim.Adam(classifier.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(classifier(x), y).backward()
        optimizer.step()

As the last layer of a Sequential:

    classifier = nn.Sequential(
        nn.Linear(8, 32),
        nn.ReLU(),
        nn.Linear(32, 3),
        nn.Softmax(dim=-1),  # <- softmax-before-cross-entropy
    )
    optimizer = torch.optim.Adam(classifier.parameters())
    criterion = nn.CrossEntropyLoss()
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(classifier(x), y)
        loss.backward()
        optimizer.step()

A log-softmax changes nothing, because that of log-probabilities is the same. It is a note: one of them is not needed,
and whoever reads the code takes the outputs for logits:

    classifier = nn.Sequential(
        nn.Linear(8, 3),
        nn.LogSoftmax(dim=1),  # <- softmax-before-cross-entropy
    )
    optimizer = torch.optim.Adam(classifier.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        nn.CrossEntropyLoss()(classifier(x), y).backward()
        optimizer.step()

## Good

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = nn.Linear(8, 32)
            self.output = nn.Linear(32, 3)

        def forward(self, x):
            x = self.output(F.relu(self.hidden(x)))
            return x

    classifier = Classifier()
    optimizer = torch.optim.Adam(classifier.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(classifier(x), y).backward()
        optimizer.step()

## When it is fine

Softmax in evaluation only:

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.output = nn.Linear(8, 3)

        def forward(self, x):
            logits = self.output(x)
            if not self.training:
                return F.softmax(logits, dim=1)
            return logits

    classifier = Classifier()
    for x, y in loader:
        F.cross_entropy(classifier(x), y).backward()

The network returns both, and the loss gets the logits:

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.output = nn.Linear(8, 3)

        def forward(self, x):
            logits = self.output(x)
            return {"logits": logits, "probabilities": logits.softmax(dim=1)}

    classifier = Classifier()
    for x, y in loader:
        outputs = classifier(x)
        F.cross_entropy(outputs["logits"], y).backward()
        outputs["probabilities"].argmax(dim=1)

A logarithm follows the softmax:

    for x, y in loader:
        probabilities = F.softmax(net(x), dim=1)
        F.cross_entropy(torch.log(probabilities + 1e-9), y).backward()

A custom loss may expect probabilities:

    class SoftLoss(nn.Module):
        def forward(self, probabilities, y):
            return -probabilities.gather(1, y[:, None]).log().mean()

    for x, y in loader:
        SoftLoss()(F.softmax(net(x), dim=1), y).backward()

## Fix

Asks first: other code may expect probabilities.

## References

PyTorch documentation, `torch.nn.CrossEntropyLoss`; lightning-bolts#654; tflearn#562; DSSM#2.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lintrain.analysis import loop_verdicts
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.model import Tensor
from lintrain.pipeline.values.tensors import Operation
from lintrain.pipeline.values.training import LossCall
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, dataclass, fixes

if TYPE_CHECKING:
    from lintrain.evidence.run import LossEvidence

SECOND = "log-softmax of probabilities"
"""How the reader names a log-softmax whose input softmax has made probabilities of already."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The code of the logits, None without a fix; `is_log` for a log-softmax."""

    logits: str | None
    is_log: bool = False


class SoftmaxBeforeCrossEntropy(Rule[Claim]):
    level = Level.ERROR
    keywords = "cross_entropy|CrossEntropyLoss|log_softmax & oftmax"
    needs_training = False
    judges_networks = True

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        found: dict[Location, Finding[Claim]] = {}
        for loss in loop_verdicts.losses_measured(pipeline, "cross_entropy"):
            if loop_verdicts.has_soft_targets(loss):
                continue
            certain = loop_verdicts.operations_before(loss, "softmax")
            branch = None if certain else loop_verdicts.softmax_in_a_branch(pipeline, loss)
            chosen = loop_verdicts.operations_of_a_choice(pipeline, loss, "softmax")
            for softmax in certain or ([branch] if branch else chosen):
                if softmax.location is not None:
                    found.setdefault(softmax.location, self._report(softmax, softmax.location, loss))
            for softmax in loop_verdicts.operations_before(loss, "log_softmax"):
                if softmax.location is not None:
                    found.setdefault(softmax.location, self._report_log(softmax, softmax.location, loss))
        for misuse in pipeline.misuses:
            second = misuse.value.made if misuse.use == SECOND and isinstance(misuse.value, Tensor) else None
            if second is not None and second.location is not None:
                found.setdefault(second.location, self._report_second(second, second.location, misuse))
        criterion, endings = loop_verdicts.endings_before(pipeline, "CrossEntropyLoss", "softmax")
        for softmax in endings:
            if softmax.location is not None and criterion is not None:
                found.setdefault(softmax.location, self._report_ending(softmax, softmax.location, criterion))
        yield from found.values()

    def _report_ending(self, softmax: Operation, location: Location, criterion: Location) -> Finding[Claim]:
        return self.finding(
            location,
            "the network ends with softmax, and `CrossEntropyLoss` applies it again",
            related=[Related(criterion, "cross-entropy expects logits and applies log-softmax itself", "loss")],
            help="remove the softmax, and apply it only where probabilities are used",
            claim=Claim(softmax.given if softmax.text else None),
        )

    def _report_second(self, softmax: Operation, location: Location, misuse: Misuse) -> Finding[Claim]:
        return self.finding(
            location,
            "softmax is applied here, and log-softmax to its result",
            related=[Related(misuse.location, "log-softmax expects logits", "loss")],
            help="remove the softmax, and apply it only where probabilities are used",
            claim=Claim(softmax.given if softmax.text else None),
        )

    def _report(self, softmax: Operation, location: Location, loss: LossCall) -> Finding[Claim]:
        return self.finding(
            location,
            f"softmax is applied here and again in `{loop_verdicts.callee_of(loss)}`",
            related=[Related(loss.location, "cross-entropy expects logits and applies log-softmax itself", "loss")],
            help="remove the softmax, and apply it only where probabilities are used",
            claim=Claim(softmax.given if softmax.text else None),
        )

    def _report_log(self, softmax: Operation, location: Location, loss: LossCall) -> Finding[Claim]:
        return self.finding(
            location,
            f"log-softmax is applied here and again in `{loop_verdicts.callee_of(loss)}`",
            related=[Related(loss.location, "cross-entropy applies log-softmax itself", "loss")],
            help="remove it, or use `nll_loss`, which expects log-probabilities",
            level=Level.NOTE,
            claim=Claim(softmax.given if softmax.text else None, is_log=True),
        )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        if not evidence.sees_losses:
            return Verdict.inconclusive(evidence.without_loop)
        losses = [loss for loss in evidence.losses_of("cross_entropy") if _is_of_classes(loss)]
        if finding.claim is not None and finding.claim.is_log:
            return _verdict_on_logs(losses)
        given = next((loss for loss in losses if loss.gives_probabilities), None)
        if given is not None and given.sums_of_inputs:
            least, most = given.sums_of_inputs
            return Verdict.confirmed(
                f"inputs of `cross_entropy` have row sums from {least:.3f} to {most:.3f}", sum=most
            )
        if losses and losses[0].sums_of_inputs:
            least, most = losses[0].sums_of_inputs
            return Verdict.refuted(f"inputs of `cross_entropy` have row sums from {least:.3g} to {most:.3g}", sum=most)
        return Verdict.inconclusive(
            f"none of {len(evidence.called_losses)} losses in the first batch is a `cross_entropy` over classes"
        )

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding[Claim], Verdict]]:
        for loss in evidence.losses_of("cross_entropy"):
            if loss.gives_probabilities and _is_of_classes(loss):
                location = loss.activated_at or loss.location or evidence.location
                found = self.finding(location, "`cross_entropy` expects logits, but gets probabilities")
                yield from self.if_confirmed(found, evidence)

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        return cause.rule == self.name

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        logits = finding.claim.logits if finding.claim else None
        if not logits:
            return None
        return fixes.Fix.of("remove the softmax", fixes.Replace(finding.location, logits), safe=False)


def _verdict_on_logs(losses: list[LossEvidence]) -> Verdict:
    """Whether the first loss gets log-probabilities."""
    sums = losses[0].sums_of_exponentials if losses else None
    if sums is None:
        return Verdict.inconclusive(
            f"none of {len(losses)} losses in the first batch is a `cross_entropy` over classes"
        )
    text = f"the exponentials of inputs of `cross_entropy` have row sums from {sums[0]:.3g} to {sums[1]:.3g}"
    verdict = Verdict.confirmed if losses[0].gives_log_probabilities else Verdict.refuted
    return verdict(text, least=sums[0], most=sums[1])


def _is_of_classes(loss: LossEvidence) -> bool:
    """Whether a loss is over two or more classes, with class indices as targets."""
    return len(loss.input_shape) > 1 and loss.input_shape[1] > 1 and "int" in loss.target_dtype
