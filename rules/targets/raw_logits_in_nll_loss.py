"""`NLLLoss` gets values that are not log-probabilities.

`NLLLoss` returns the negated value of the target class and expects the output of a log-softmax. With logits the loss
falls without bound as all outputs grow, so the network learns to increase its outputs instead of separating the
classes. No error is raised.

## Bad

    criterion = nn.NLLLoss()
    classifier = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.Adam(classifier.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(classifier(x), y)  # <- raw-logits-in-nll-loss
        loss.backward()
        optimizer.step()

Softmax without the logarithm:

    classifier = nn.Linear(8, 3)
    optimizer = torch.optim.Adam(classifier.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        F.nll_loss(F.softmax(classifier(x), dim=1), y).backward()  # <- raw-logits-in-nll-loss
        optimizer.step()

The logarithm is undone:

    classifier = nn.Linear(8, 3)
    optimizer = torch.optim.Adam(classifier.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        scores = torch.exp(F.log_softmax(classifier(x), dim=1))
        F.nll_loss(scores, y).backward()  # <- raw-logits-in-nll-loss
        optimizer.step()

## Good

    criterion = nn.CrossEntropyLoss()
    classifier = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.Adam(classifier.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(classifier(x), y)
        loss.backward()
        optimizer.step()

With log-softmax:

    classifier = nn.Linear(8, 3)
    optimizer = torch.optim.Adam(classifier.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        F.nll_loss(F.log_softmax(classifier(x), dim=1), y).backward()
        optimizer.step()

## When it is fine

The network ends with log-softmax, or the script computes the logarithm:

    classifier = nn.Sequential(nn.Linear(8, 3), nn.LogSoftmax(dim=1))
    for x, y in loader:
        F.nll_loss(classifier(x), y).backward()
        F.nll_loss(torch.log(F.softmax(classifier(x), dim=1) + 1e-9), y).backward()

The outputs of the network are unknown:

    from my_models import build

    classifier = build("classifier")
    for x, y in loader:
        F.nll_loss(classifier(x), y).backward()

Other likelihoods expect other inputs:

    regressor = nn.Linear(8, 1)
    for x, y in loader:
        F.gaussian_nll_loss(regressor(x), y[:, None].float(), torch.ones(len(x), 1)).backward()

## Fix

Asks first: other code may expect logits or probabilities.

## References

PyTorch documentation, `torch.nn.NLLLoss`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import loop_verdicts
from lintrain.pipeline import blocks
from lintrain.pipeline.values.tensors import Operation
from lintrain.pipeline.values.training import LossCall
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, dataclass, fixes
from lintrain.source import nodes

OUTPUTS = {
    "linear": "logits",
    "logits": "logits",
    "conv1d": "logits",
    "conv2d": "logits",
    "relu": "ReLU outputs",
    "softmax": "probabilities",
    "sigmoid": "probabilities",
    "exp": "exponentials",
}
"""Operations whose outputs are certainly not log-probabilities, with the name of their outputs."""

SQUASHED = frozenset({"sigmoid", "exp"})
"""Operations that would have to be removed as well: no other loss is right for their outputs."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The code of the correct callee, None without a fix; `are_logits` if a run showed logits."""

    code: str | None = None
    are_logits: bool = False


class RawLogitsInNllLoss(Rule[Claim]):
    level = Level.ERROR
    keywords = "nll_loss|NLLLoss"
    needs_training = False
    judges_networks = True

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        found: dict[Location, Finding[Claim]] = {}
        for loss in loop_verdicts.losses_called(pipeline, "nll_loss"):
            made = loop_verdicts.operations_before(loss, *OUTPUTS)
            if made:
                found.setdefault(loss.location, self._report(pipeline, made[0], loss))
        criterion, endings = loop_verdicts.endings_before(pipeline, "NLLLoss", *OUTPUTS)
        for made_by in endings:
            if made_by.location is not None and criterion is not None:
                found.setdefault(made_by.location, self._report_ending(made_by, made_by.location, criterion))
        yield from found.values()

    def _report_ending(self, made: Operation, location: Location, criterion: Location) -> Finding[Claim]:
        return self.finding(
            location,
            f"the network gives {OUTPUTS[made.name]}, and `NLLLoss` expects log-probabilities",
            related=[Related(criterion, "the loss is made here", "loss")],
            help="end the network with log-softmax, or use `CrossEntropyLoss` for logits",
        )

    def _report(self, pipeline: Pipeline, made: Operation, loss: LossCall) -> Finding[Claim]:
        given = OUTPUTS[made.name]
        callee, code = _corrected_callee(pipeline, made, loss) or (None, None)
        return self.finding(
            loss.location,
            f"`{loop_verdicts.callee_of(loss)}` expects log-probabilities, but gets {given}",
            related=[
                *([Related(made.location, f"returns {given}", "origin")] if made.location else []),
                *([Related(callee, "the loss function is named here", "callee")] if callee else []),
            ],
            help=f"remove the `{made.name}`, and apply `log_softmax` to the logits"
            if made.name in SQUASHED
            else "use `cross_entropy` on the logits, or apply `log_softmax` first",
            claim=Claim(code),
        )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        if not evidence.sees_losses:
            return Verdict.inconclusive(evidence.without_loop)
        losses = evidence.losses_of("nll_loss")
        for loss in losses:
            least, most = loss.sums_of_exponentials or (1.0, 1.0)
            if not loss.gives_log_probabilities:
                return Verdict.confirmed(
                    f"the exponentials of each row sum to {least:.3g} to {most:.3g}, not to 1", sum=most
                )
        if losses:
            return Verdict.refuted("the exponentials of every row sum to 1", calls=len(losses))
        if evidence.called_losses:
            return Verdict.refuted(f"the loss is `{evidence.called_losses[0].function}`, not `nll_loss`")
        return Verdict.inconclusive(f"{len(evidence.called_losses)} losses of torch were called in the first batch")

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding[Claim], Verdict]]:
        for loss in evidence.losses_of("nll_loss"):
            if (loss.input_maximum or 0.0) > 0.0:
                found = self.finding(
                    loss.location or evidence.location,
                    "`nll_loss` gets values above 0, which are not log-probabilities",
                    claim=Claim(are_logits=not loss.gives_probabilities),
                )
                yield from self.if_confirmed(found, evidence)

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        return cause.rule == self.name

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim, callees = finding.claim, finding.with_role("callee")
        if claim is not None and claim.are_logits:
            return _cross_entropy_instead(finding)
        if claim is None or claim.code is None or not callees:
            return None
        return fixes.Fix.of(f"use `{claim.code}`", fixes.Replace(callees[0].location, claim.code), safe=False)


def _cross_entropy_instead(finding: Finding[Claim]) -> fixes.Fix | None:
    """The fix that calls `cross_entropy` in the line that a run showed; None if the loss is created elsewhere."""
    callee = nodes.callee_in(finding)
    renamed = _renamed(callee[0], callee[1], "nll_loss", "cross_entropy") if callee else None
    return fixes.Fix.of(f"use `{renamed[1]}`", fixes.Replace(*renamed), safe=False) if renamed else None


def _corrected_callee(pipeline: Pipeline, made: Operation, loss: LossCall) -> tuple[Location, str] | None:
    """The callee to replace and its new code: `log_softmax` for a softmax, else a loss that expects logits."""
    if made.name == "softmax":
        return (
            _renamed(made.location, pipeline.code(made.location), "softmax", "log_softmax") if made.location else None
        )
    if loss.without_grad or made.name in SQUASHED:
        return None
    code = pipeline.code(loss.location)
    if code.partition("(")[0].endswith("nll_loss"):
        return _renamed(loss.location, code, "nll_loss", "cross_entropy")
    name = code.partition("(")[0]
    locations = [binding.value.origin for binding in pipeline.bindings if binding.name == name]
    if len(locations) != 1 or locations[0] is None or len(blocks.uses_of(pipeline, name, loss.location)) != 1:
        return None
    return _renamed(locations[0], pipeline.code(locations[0]), "NLLLoss", "CrossEntropyLoss")


def _renamed(location: Location, code: str, old: str, new: str) -> tuple[Location, str] | None:
    """The location of a callee that ends with the old name, and its code with the new one."""
    callee = code.partition("(")[0]
    if "\n" in callee or not callee.endswith(old) or callee.endswith(f"_{old}"):
        return None
    end = location.column + len(callee)
    return Location(
        location.path, location.line, location.column, location.line, end
    ), f"{callee.removesuffix(old)}{new}"
