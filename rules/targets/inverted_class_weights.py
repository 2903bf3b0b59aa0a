"""The weights of classes grow with the number of their rows, so that the common class counts even more.

Weights are meant to balance: a class with a tenth of the rows gets a weight ten times as large. The frequencies
themselves do the opposite, and the rare class is hardly learned at all. No error is raised.

## Bad

    counts = np.bincount(y_train)
    weights = torch.tensor(counts / counts.sum(), dtype=torch.float32)
    weighted = nn.CrossEntropyLoss(weight=weights)  # <- inverted-class-weights
    for x, y in loader:
        optimizer.zero_grad()
        weighted(net(x), y).backward()
        optimizer.step()

## Good

    counts = np.bincount(y_train)
    weights = torch.tensor(counts.sum() / (len(counts) * counts), dtype=torch.float32)
    weighted = nn.CrossEntropyLoss(weight=weights)
    for x, y in loader:
        optimizer.zero_grad()
        weighted(net(x), y).backward()
        optimizer.step()

## When it is fine

One minus the frequency falls with it:

    counts = np.bincount(y_train)
    weights = torch.tensor(1 - counts / counts.sum(), dtype=torch.float32)
    weighted = nn.CrossEntropyLoss(weight=weights)
    for x, y in loader:
        optimizer.zero_grad()
        weighted(net(x), y).backward()
        optimizer.step()

## Fix

None: how strongly rare classes should count is not certain.

## References

scikit-learn documentation, `compute_class_weight`; PyTorch documentation, `BCEWithLogitsLoss`, `pos_weight`;
TensorFlow tutorial, "Classification on imbalanced data".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import class_frequencies
from lintrain.rule import Finding, Level, Pipeline, Related, Rule


class InvertedClassWeights(Rule):
    level = Level.WARNING
    keywords = "class_weight|pos_weight|weight="

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for found in class_frequencies.growing_weights(pipeline.source):
            yield self.finding(
                found.location,
                f"`{found.argument}` grows with the rows of a class, so rare classes count less",
                related=[Related(found.made, "computed here", "origin")],
                help="divide by the number of rows of the class: `total / count`",
                subject=found.argument,
            )
