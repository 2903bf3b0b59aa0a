"""A contrastive loss has the wrong partner for each row, or compares something other than directions.

A contrastive loss scores each row with its partner and with all other rows, and learns to raise the score of the
partner. With another partner, a candidate that is no pair, or scores that are no cosines of two views, it learns
something else. No error is raised.

The scores of two views are a matrix whose row `i` belongs to column `i`. With labels of 0, all rows are to match the
first one. In a matrix of all rows with themselves the diagonal has the highest score, and is no pair: as long as it is
among the candidates, the loss stays high. A score of 0 does not leave it out, because the exponential of 0 is 1, and
labels that are the diagonal itself make the loss infinite. Embeddings that are normalized over the batch, not each by
itself, have products that are no cosines. Cosines that are multiplied by a temperature of 0.1, not divided by it, are
nearly equal for every pair. Two views that are one result of a random transform always match.

## Bad

    encoder = nn.Linear(8, 4)
    adam = torch.optim.Adam(encoder.parameters(), lr=1e-3)
    for x, _ in loader:
        one, other = F.normalize(encoder(x), dim=1), F.normalize(encoder(x + 0.1), dim=1)
        scores = one @ other.T / 0.1
        labels = torch.zeros(len(x), dtype=torch.long)
        loss = F.cross_entropy(scores, labels)  # <- wrong-contrast
        adam.zero_grad()
        loss.backward()
        adam.step()

A row that is compared with itself:

    encoder = nn.Linear(8, 4)
    adam = torch.optim.Adam(encoder.parameters(), lr=1e-3)
    for x, _ in loader:
        n = len(x)
        both = F.normalize(torch.cat([encoder(x), encoder(x + 0.1)]), dim=1)
        labels = torch.cat([torch.arange(n, 2 * n), torch.arange(n)])
        loss = F.cross_entropy(torch.matmul(both, both.T) / 0.5, labels)  # <- wrong-contrast
        adam.zero_grad()
        loss.backward()
        adam.step()

Scores that are multiplied by the temperature:

    encoder = nn.Linear(8, 4)
    adam = torch.optim.Adam(encoder.parameters(), lr=1e-3)
    for x, _ in loader:
        one, other = F.normalize(encoder(x), dim=1), F.normalize(encoder(x + 0.1), dim=1)
        scores = one @ other.T * 0.1  # <- wrong-contrast
        loss = F.cross_entropy(scores, torch.arange(len(x)))
        adam.zero_grad()
        loss.backward()
        adam.step()

A diagonal with a score of 0, and embeddings that depend on the other rows of the batch:

    encoder = nn.Linear(8, 4)
    adam = torch.optim.Adam(encoder.parameters(), lr=1e-3)
    for x, _ in loader:
        n = len(x)
        both = torch.cat([encoder(x), encoder(x + 0.1)])
        both = F.normalize(both, dim=0)  # <- wrong-contrast
        itself = torch.eye(2 * n, dtype=torch.bool)
        scores = (both @ both.T / 0.5).masked_fill(itself, 0.0)  # <- wrong-contrast
        loss = F.cross_entropy(scores, torch.cat([torch.arange(n, 2 * n), torch.arange(n)]))
        adam.zero_grad()
        loss.backward()
        adam.step()

## Good

    encoder = nn.Linear(8, 4)
    adam = torch.optim.Adam(encoder.parameters(), lr=1e-3)
    for x, _ in loader:
        one, other = F.normalize(encoder(x), dim=1), F.normalize(encoder(x + 0.1), dim=1)
        scores = one @ other.T / 0.1
        labels = torch.arange(len(x))
        loss = F.cross_entropy(scores, labels)
        adam.zero_grad()
        loss.backward()
        adam.step()

## When it is fine

A diagonal that is left out, and a first column of its own for the partner:

    encoder = nn.Linear(8, 4)
    adam = torch.optim.Adam(encoder.parameters(), lr=1e-3)
    queue = F.normalize(torch.randn(32, 4), dim=1)
    for x, _ in loader:
        n = len(x)
        one, other = F.normalize(encoder(x), dim=1), F.normalize(encoder(x + 0.1), dim=1)
        both = torch.cat([one, other])
        scores = (both @ both.T).masked_fill(torch.eye(2 * n, dtype=torch.bool), float("-inf"))
        loss = F.cross_entropy(scores, torch.cat([torch.arange(n, 2 * n), torch.arange(n)]))
        positive = (one * other).sum(1, keepdim=True)
        negative = one @ queue.T
        first = torch.zeros(n, dtype=torch.long)
        loss = loss + F.cross_entropy(torch.cat([positive, negative], dim=1), first)
        adam.zero_grad()
        loss.backward()
        adam.step()

## Fix

None: the labels may be right for scores in another order.

## References

Chen et al., "A Simple Framework for Contrastive Learning of Visual Representations", equation 1; van den Oord et al.,
"Representation Learning with Contrastive Predictive Coding".
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from lintrain.analysis import contrast_temperatures, contrasts, same_views, unit_columns
from lintrain.rule import Finding, Level, Pipeline, Rule, Source, Targets, one_per_location


class WrongContrast(Rule):
    level = Level.ERROR
    keywords = "cross_entropy|CrossEntropyLoss|norm|osine & @|matmul|mm(|transform(|augment(|osine|normalize("
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        found = (
            contrasts.wrong_pairs,
            unit_columns.unit_columns,
            contrast_temperatures.multiplied,
            same_views.same_views,
        )
        return any(any(each(source)) for each in found)

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(
            self.finding(each.location, each.message, why=each.why, help=each.remedy)
            for each in chain(contrasts.wrong_pairs(pipeline.source), unit_columns.unit_columns(pipeline.source))
        )
        yield from one_per_location(map(self._report_product, contrast_temperatures.multiplied(pipeline.source)))
        yield from one_per_location(
            self.finding(
                location,
                "both views are the same image, so nothing is to be learned",
                why="The pair matches whatever the network does, so the network does not learn to ignore what the "
                "transform changes. No error is raised.",
                help="call the transform once for each view: it draws other numbers each time",
            )
            for location in same_views.same_views(pipeline.source)
        )

    def _report_product(self, found: contrast_temperatures.Multiplied) -> Finding:
        number = f" of {found.number:g}" if found.number is not None else ""
        return self.finding(
            found.location,
            f"cosines are multiplied by the temperature{number}, not divided by it",
            why="The softmax over the scores is nearly even, so the loss cannot fall far below the logarithm of the "
            "number of candidates. No error is raised.",
            help=f"divide the scores, `/ {found.temperature}`: as a factor it makes them nearly equal",
        )
