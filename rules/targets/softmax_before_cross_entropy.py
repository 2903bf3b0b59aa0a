"""The network ends in softmax, and the loss applies softmax again.

Cross-entropy of torch takes logits and normalises them itself. Probabilities lie between 0 and 1, so after the second
softmax no class can come near 1: with ten classes the loss never falls below 1.46, gradients are small and the network
learns slowly or stops early. No error appears.

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

Log-probabilities are left as they are by another log-softmax:

    classifier = nn.Sequential(nn.Linear(8, 3), nn.LogSoftmax(dim=1))
    for x, y in loader:
        nn.CrossEntropyLoss()(classifier(x), y).backward()

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

The network gives both, and the loss is given the logits:

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

What is done to the probabilities afterwards makes something else of them:

    for x, y in loader:
        probabilities = F.softmax(net(x), dim=1)
        F.cross_entropy(torch.log(probabilities + 1e-9), y).backward()

A loss of one's own may want probabilities:

    class SoftLoss(nn.Module):
        def forward(self, probabilities, y):
            return -probabilities.gather(1, y[:, None]).log().mean()

    for x, y in loader:
        SoftLoss()(F.softmax(net(x), dim=1), y).backward()

## References

PyTorch documentation, `torch.nn.CrossEntropyLoss`; lightning-bolts#654; tflearn#562; DSSM#2.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain import (
    Finding,
    Fix,
    Level,
    LossCall,
    Operation,
    Pipeline,
    Place,
    Reason,
    Replace,
    Rule,
    callee_of,
    losses_called,
    operations_before,
    tensors_given,
)

DISTRIBUTIONS = frozenset({"softmax", "log_softmax", "sigmoid", "one_hot"})


class SoftmaxBeforeCrossEntropy(Rule):
    level = Level.ERROR

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        found: dict[Place, Finding] = {}
        for loss in losses_called(pipeline, "cross_entropy"):
            if _has_soft_targets(loss):
                continue
            for softmax in operations_before(loss, "softmax"):
                if softmax.place is not None:
                    found.setdefault(softmax.place, self._report(softmax, softmax.place, loss))
        yield from found.values()

    def _report(self, softmax: Operation, place: Place, loss: LossCall) -> Finding:
        return self.finding(
            place,
            f"a softmax stands here, and `{callee_of(loss)}` applies its own",
            because=[Reason(loss.place, "cross-entropy takes logits and applies log-softmax itself", "loss")],
            help="leave the softmax out, and apply it where probabilities are read",
            facts={"logits": softmax.given if softmax.text else None},
        )

    def fix(self, finding: Finding) -> Fix | None:
        logits = finding.facts.get("logits")
        if not isinstance(logits, str) or not logits:
            return None
        return Fix.of("take the logits as they are", Replace(finding.place, logits), safe=False)


def _has_soft_targets(loss: LossCall) -> bool:
    """Targets that are probabilities themselves: such a loss compares distributions, by a recipe of its own."""
    targets = tensors_given(loss, "target")
    return any(target.kind == "float" or (target.made and target.made.name in DISTRIBUTIONS) for target in targets)
