"""The sigmoid before a binary cross-entropy is applied twice, or not at all.

`BCEWithLogitsLoss` applies the sigmoid itself. With a second sigmoid the loss cannot fall below 0.31 for positive and
0.69 for negative targets: the network learns slowly, and no error is raised. `BCELoss` expects probabilities, and
raises an error for the first logit below 0 or above 1.

## Bad

    classifier = nn.Linear(8, 1)
    optimizer = torch.optim.Adam(classifier.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        probabilities = torch.sigmoid(classifier(x))  # <- sigmoid-before-bce-with-logits
        loss = F.binary_cross_entropy_with_logits(probabilities, (y == 0).float().unsqueeze(1))
        loss.backward()
        optimizer.step()

A softmax is no better:

    classifier = nn.Linear(8, 3)
    optimizer = torch.optim.Adam(classifier.parameters())
    criterion = nn.BCEWithLogitsLoss()
    for x, y in loader:
        optimizer.zero_grad()
        probabilities = F.softmax(classifier(x), dim=1)  # <- sigmoid-before-bce-with-logits
        loss = criterion(probabilities, F.one_hot(y, 3).float())
        loss.backward()
        optimizer.step()

A loss that expects probabilities gets logits:

    classifier = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(classifier.parameters())
    criterion = nn.BCELoss()
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(classifier(x), (y == 0).float().unsqueeze(1))  # <- sigmoid-before-bce-with-logits
        loss.backward()
        optimizer.step()

    # raises RuntimeError: all elements of input should be between 0 and 1

## Good

    classifier = nn.Linear(8, 1)
    optimizer = torch.optim.Adam(classifier.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        probabilities = classifier(x)
        loss = F.binary_cross_entropy_with_logits(probabilities, (y == 0).float().unsqueeze(1))
        loss.backward()
        optimizer.step()

Logits of several classes:

    classifier = nn.Linear(8, 3)
    optimizer = torch.optim.Adam(classifier.parameters())
    criterion = nn.BCEWithLogitsLoss()
    for x, y in loader:
        optimizer.zero_grad()
        probabilities = classifier(x)
        loss = criterion(probabilities, F.one_hot(y, 3).float())
        loss.backward()
        optimizer.step()

## When it is fine

The sigmoid is used for the metric, and the loss gets the logits:

    classifier = nn.Linear(8, 1)
    for x, y in loader:
        logits = classifier(x)
        F.binary_cross_entropy_with_logits(logits, (y == 0).float().unsqueeze(1)).backward()
        predicted = torch.sigmoid(logits) > 0.5

The sigmoid is a gate inside the network:

    class Gated(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = nn.Linear(8, 8)
            self.output = nn.Linear(8, 1)

        def forward(self, x):
            return self.output(x * torch.sigmoid(self.gate(x)))

    classifier = Gated()
    criterion = nn.BCEWithLogitsLoss()
    for x, y in loader:
        criterion(classifier(x), (y == 0).float().unsqueeze(1)).backward()

A flag selects the loss, and the sigmoid is applied for one of them:

    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--with-logits", action="store_true")
    with_logits = parser.parse_args().with_logits
    classifier = nn.Linear(8, 1)
    criterion = nn.BCEWithLogitsLoss() if with_logits else nn.BCELoss()
    for x, y in loader:
        output = classifier(x) if with_logits else torch.sigmoid(classifier(x))
        criterion(output, (y == 0).float().unsqueeze(1)).backward()

## Fix

Asks first: code that compares the outputs with 0.5 has to compare them with 0.

## References

PyTorch documentation, `torch.nn.BCEWithLogitsLoss` and `torch.nn.BCELoss`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import loop_verdicts
from lintrain.pipeline.values.tensors import Operation
from lintrain.pipeline.values.training import LossCall
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, dataclass, fixes

UNBOUNDED = ("linear", "logits", "conv1d", "conv2d")
"""Operations that return unbounded values."""


LOGARITHMS = ("log_softmax", "logsigmoid")
"""Operations that return logarithms of probabilities."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The code of the logits; None without a fix."""

    logits: str | None


class SigmoidBeforeBceWithLogits(Rule[Claim]):
    level = Level.ERROR
    keywords = "binary_cross_entropy|BCELoss|BCEWithLogitsLoss"
    needs_training = False
    judges_networks = True

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        found: dict[Location, Finding[Claim]] = {}
        for loss in loop_verdicts.losses_measured(pipeline, "binary_cross_entropy_with_logits"):
            certain = loop_verdicts.operations_before(loss, "sigmoid", "softmax")
            for made_by in certain or loop_verdicts.operations_of_a_choice(pipeline, loss, "sigmoid", "softmax"):
                if made_by.location is not None:
                    found.setdefault(made_by.location, self._report_second(made_by, made_by.location, loss))
        for loss in loop_verdicts.losses_called(pipeline, "binary_cross_entropy"):
            made = loop_verdicts.operations_before(loss, *UNBOUNDED, "tanh", *LOGARITHMS)
            if made:
                found.setdefault(loss.location, self._report_missing_sigmoid(made[0], loss))
        criterion, endings = loop_verdicts.endings_before(pipeline, "BCEWithLogitsLoss", "sigmoid", "softmax")
        for made_by in endings:
            if made_by.location is not None and criterion is not None:
                found.setdefault(made_by.location, self._report_ending(made_by, made_by.location, criterion))
        yield from found.values()

    def _report_ending(self, made: Operation, location: Location, criterion: Location) -> Finding[Claim]:
        return self.finding(
            location,
            f"the network ends with {made.name}, but `BCEWithLogitsLoss` expects logits",
            related=[Related(criterion, "this loss expects logits and applies the sigmoid itself", "loss")],
            help=f"remove the {made.name}; a threshold of 0.5 for probabilities becomes 0 for logits",
            claim=Claim(made.given if made.text else None),
        )

    def _report_second(self, made: Operation, location: Location, loss: LossCall) -> Finding[Claim]:
        second = "again" if made.name == "sigmoid" else "a sigmoid"
        return self.finding(
            location,
            f"{made.name} is applied here and {second} in `{loop_verdicts.callee_of(loss)}`",
            related=[Related(loss.location, "this loss expects logits and applies the sigmoid itself", "loss")],
            help=f"remove the {made.name}; a threshold of 0.5 for probabilities becomes 0 for logits",
            claim=Claim(made.given if made.text else None),
        )

    def _report_missing_sigmoid(self, made: Operation, loss: LossCall) -> Finding[Claim]:
        if made.name == "tanh":
            return self.finding(
                loss.location,
                f"`{loop_verdicts.callee_of(loss)}` expects probabilities, but gets values between -1 and 1",
                related=[Related(made.location, "returns them", "origin")] if made.location else [],
                help="use a sigmoid in place of `tanh`",
            )
        given = "logarithms of them" if made.name in LOGARITHMS else "logits"
        origin = [Related(made.location, f"returns {given}", "origin")] if made.location else []
        return self.finding(
            loss.location,
            f"`{loop_verdicts.callee_of(loss)}` expects probabilities, but gets {given}",
            related=origin,
            help="use `BCEWithLogitsLoss` on the logits, which applies the sigmoid itself",
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        for loss in evidence.losses_of("binary_cross_entropy_with_logits"):
            if loss.location is not None and loss.made_by in {"Sigmoid", "Softmax"}:
                yield self.finding(
                    loss.activated_at or loss.location,
                    "the inputs of this loss are probabilities already, and it applies a sigmoid to them",
                    help="leave the sigmoid out before the loss",
                )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        if not evidence.sees_losses:
            return Verdict.inconclusive(evidence.without_loop)
        for loss in evidence.losses_of("binary_cross_entropy_with_logits", "binary_cross_entropy"):
            if loss.input_minimum is None or loss.input_maximum is None:
                continue
            text = f"inputs of `{loss.function}` range from {loss.input_minimum:.3g} to {loss.input_maximum:.3g}"
            are_probabilities = loss.input_minimum >= 0.0 and loss.input_maximum <= 1.0
            is_wrong = are_probabilities is loss.function.endswith("with_logits")
            verdict = Verdict.confirmed if is_wrong else Verdict.refuted
            return verdict(text, minimum=loss.input_minimum, maximum=loss.input_maximum)
        return Verdict.inconclusive(
            f"none of {len(evidence.called_losses)} losses in the first batch is a binary cross-entropy"
        )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        logits = finding.claim.logits if finding.claim else None
        if not logits:
            return None
        return fixes.Fix.of("remove the activation", fixes.Replace(finding.location, logits), safe=False)
