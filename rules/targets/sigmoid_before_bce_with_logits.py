"""The sigmoid and the binary cross-entropy do not fit: it is applied twice, or not at all.

`BCEWithLogitsLoss` applies the sigmoid itself. After a second one the loss cannot fall below 0.31 for a positive and
0.69 for a negative target: the network learns slowly and never becomes sure, and no error appears. The other way
round, `BCELoss` wants probabilities; given logits it stops as soon as one of them is below 0 or above 1.

## Bad

    classifier = nn.Linear(8, 1)
    optimizer = torch.optim.Adam(classifier.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        probabilities = torch.sigmoid(classifier(x))  # <- sigmoid-before-bce-with-logits
        loss = F.binary_cross_entropy_with_logits(probabilities, (y == 0).float().unsqueeze(1))
        loss.backward()
        optimizer.step()

A loss that takes probabilities gets logits:

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

## When it is fine

The sigmoid is for the metric, and the loss gets the logits:

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

A flag chooses between the two losses, and the sigmoid goes with one of them:

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

Asks first: code that reads the outputs later has to compare with 0 and no more with 0.5.

## References

PyTorch documentation, `torch.nn.BCEWithLogitsLoss` and `torch.nn.BCELoss`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import loss_calls
from lintrain.pipeline.values.tensors import Operation
from lintrain.pipeline.values.training import LossCall
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, fixes

RAW = ("linear", "logits", "conv1d", "conv2d")
"""Operations that give numbers of any sign and size."""


class SigmoidBeforeBceWithLogits(Rule):
    level = Level.ERROR
    keywords = "binary_cross_entropy|BCELoss|BCEWithLogitsLoss"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        found: dict[Location, Finding] = {}
        for loss in loss_calls.losses_called(pipeline, "binary_cross_entropy_with_logits"):
            for sigmoid in loss_calls.operations_before(loss, "sigmoid"):
                if sigmoid.location is not None:
                    found.setdefault(sigmoid.location, self._twice(sigmoid, sigmoid.location, loss))
        for loss in loss_calls.losses_called(pipeline, "binary_cross_entropy"):
            made = loss_calls.operations_before(loss, *RAW)
            if made:
                found.setdefault(loss.location, self._never(made[0], loss))
        yield from found.values()

    def _twice(self, sigmoid: Operation, location: Location, loss: LossCall) -> Finding:
        return self.finding(
            location,
            f"a sigmoid stands here, and `{loss_calls.callee_of(loss)}` applies its own",
            related=[Related(loss.location, "this loss takes logits and applies the sigmoid itself", "loss")],
            help="leave the sigmoid out; a threshold of 0.5 on probabilities is one of 0 on logits",
            facts={"logits": sigmoid.given if sigmoid.text else None},
        )

    def _never(self, made: Operation, loss: LossCall) -> Finding:
        origin = (
            [Related(made.location, "these numbers are logits, of any sign and size", "origin")]
            if made.location
            else []
        )
        return self.finding(
            loss.location,
            f"`{loss_calls.callee_of(loss)}` takes probabilities, and gets logits without a sigmoid",
            related=origin,
            help="use `BCEWithLogitsLoss`, which applies the sigmoid itself",
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        for loss in loop.losses_of("binary_cross_entropy_with_logits", "binary_cross_entropy"):
            if loss.input_minimum is None or loss.input_maximum is None:
                continue
            text = f"inputs of `{loss.function}` lie between {loss.input_minimum:.3g} and {loss.input_maximum:.3g}"
            are_probabilities = loss.input_minimum >= 0.0 and loss.input_maximum <= 1.0
            told = Verdict.confirmed if are_probabilities is loss.function.endswith("with_logits") else Verdict.refuted
            return told(text, minimum=loss.input_minimum, maximum=loss.input_maximum)
        return Verdict.inconclusive(f"none of {len(loop.losses)} losses in the first batch is a binary cross-entropy")

    def fix(self, finding: Finding) -> fixes.Fix | None:
        logits = finding.facts.get("logits")
        if not isinstance(logits, str) or not logits:
            return None
        return fixes.Fix.of("take the logits as they are", fixes.Replace(finding.location, logits), safe=False)
