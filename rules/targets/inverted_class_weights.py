"""The weights of classes grow with the number of their rows, so that the common class counts even more.

Weights are meant to balance: a class with a tenth of the rows gets a weight ten times as large. The frequencies
themselves do the opposite, and the rare class is hardly learned at all. So do weights in the order of
`value_counts()`, which begins with the most common class. No error is raised.

## Bad

    labels = (torch.arange(96) % 8 == 0).long()
    classifier = nn.Linear(8, 2)
    optimizer = torch.optim.Adam(classifier.parameters())
    counts = torch.bincount(labels)
    weighted = nn.CrossEntropyLoss(weight=counts / counts.sum())  # <- inverted-class-weights
    for x, y in DataLoader(TensorDataset(features, labels), batch_size=16, shuffle=True):
        optimizer.zero_grad()
        weighted(classifier(x), y).backward()
        optimizer.step()

## Good

    labels = (torch.arange(96) % 8 == 0).long()
    classifier = nn.Linear(8, 2)
    optimizer = torch.optim.Adam(classifier.parameters())
    counts = torch.bincount(labels)
    weighted = nn.CrossEntropyLoss(weight=counts.sum() / (len(counts) * counts))
    for x, y in DataLoader(TensorDataset(features, labels), batch_size=16, shuffle=True):
        optimizer.zero_grad()
        weighted(classifier(x), y).backward()
        optimizer.step()

## When it is fine

One minus the frequency falls with it:

    labels = (torch.arange(96) % 8 == 0).long()
    classifier = nn.Linear(8, 2)
    optimizer = torch.optim.Adam(classifier.parameters())
    counts = torch.bincount(labels)
    weighted = nn.CrossEntropyLoss(weight=1 - counts / counts.sum())
    for x, y in DataLoader(TensorDataset(features, labels), batch_size=16, shuffle=True):
        optimizer.zero_grad()
        weighted(classifier(x), y).backward()
        optimizer.step()

A common class that counts more by a factor of your own, such as the price of a false alarm:

    labels = (torch.arange(96) % 8 == 0).long()
    classifier = nn.Linear(8, 2)
    optimizer = torch.optim.Adam(classifier.parameters())
    weighted = nn.CrossEntropyLoss(weight=torch.tensor([3.0, 1.0]))
    for x, y in DataLoader(TensorDataset(features, labels), batch_size=16, shuffle=True):
        optimizer.zero_grad()
        weighted(classifier(x), y).backward()
        optimizer.step()

## Fix

None: how strongly rare classes should count is not certain.

## References

scikit-learn documentation, `compute_class_weight`; PyTorch documentation, `BCEWithLogitsLoss`, `pos_weight`;
TensorFlow tutorial, "Classification on imbalanced data".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import class_balance, class_frequencies
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict


class InvertedClassWeights(Rule):
    level = Level.WARNING
    keywords = "class_weight|pos_weight|positive_weight|weight=|CrossEntropyLoss|NLLLoss"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for found in class_frequencies.growing_weights(pipeline.source):
            yield self.finding(
                found.location,
                f"`{found.argument}` grows with the rows of a class, so rare classes count less",
                related=[Related(found.made, "computed here", "origin")],
                help="divide the negative rows by the positive ones"
                if found.argument == "pos_weight"
                else "divide by the number of rows of the class: `total / count`",
                subject=found.argument,
            )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        counts = class_balance.rows_of_classes(evidence)
        if isinstance(counts, str):
            return
        for loss in class_balance.weighted_losses(evidence):
            # A user may want weights that grow, but hardly in the very ratio of the rows.
            meaning = class_balance.meaning_of(loss.class_weights, counts)
            if loss.location is not None and meaning:
                yield self.finding(
                    loss.location,
                    f"the class weights of this loss {meaning}",
                    help="divide by the number of rows of the class, in the order of the classes: `total / count`",
                )
                return

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        if not evidence.sees_losses:
            return Verdict.inconclusive(evidence.without_loop)
        counts = class_balance.rows_of_classes(evidence)
        if isinstance(counts, str):
            return Verdict.inconclusive(counts)
        losses = class_balance.weighted_losses(evidence)
        verdicts = [class_balance.judge(loss.class_weights, counts) for loss in losses]
        if len({verdict.outcome for verdict in verdicts}) == 1:
            return verdicts[0]
        return Verdict.inconclusive(f"{len(losses)} losses of the first batch got weights of classes")
