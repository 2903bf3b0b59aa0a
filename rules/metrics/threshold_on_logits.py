"""Logits are compared with 0.5, the threshold of probabilities.

A loss with logits applies the sigmoid itself, so the network returns logits. A logit above 0.5 is a probability above
0.62: the accuracy is too low, and the predictions are not those that were trained. No error is raised.

## Bad

    scorer = nn.Linear(8, 1)
    optimizer = torch.optim.Adam(scorer.parameters())
    criterion = nn.BCEWithLogitsLoss()
    for x, y in loader:
        outputs = scorer(x).squeeze(1)
        loss = criterion(outputs, (y > 0).float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        accuracy = ((outputs > 0.5) == (y > 0)).float().mean()  # <- threshold-on-logits

Rounded:

    scorer = nn.Linear(8, 1)
    optimizer = torch.optim.Adam(scorer.parameters())
    for x, y in loader:
        outputs = scorer(x).squeeze(1)
        loss = F.binary_cross_entropy_with_logits(outputs, (y > 0).float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        predicted = torch.round(outputs)  # <- threshold-on-logits

## Good

    scorer = nn.Linear(8, 1)
    optimizer = torch.optim.Adam(scorer.parameters())
    criterion = nn.BCEWithLogitsLoss()
    for x, y in loader:
        outputs = scorer(x).squeeze(1)
        loss = criterion(outputs, (y > 0).float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        accuracy = ((outputs > 0) == (y > 0)).float().mean()

and

    scorer = nn.Linear(8, 1)
    optimizer = torch.optim.Adam(scorer.parameters())
    for x, y in loader:
        outputs = scorer(x).squeeze(1)
        loss = F.binary_cross_entropy_with_logits(outputs, (y > 0).float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        predicted = torch.round(torch.sigmoid(outputs))

## When it is fine

The name holds probabilities after the loss:

    scorer = nn.Linear(8, 1)
    optimizer = torch.optim.Adam(scorer.parameters())
    for x, y in loader:
        outputs = scorer(x).squeeze(1)
        F.binary_cross_entropy_with_logits(outputs, (y > 0).float()).backward()
        outputs = torch.sigmoid(outputs)
        accuracy = ((outputs > 0.5) == (y > 0)).float().mean()

## Fix

None: the threshold may become 0, or the logits probabilities.

## References

PyTorch documentation, `torch.nn.BCEWithLogitsLoss`; the fix in `tkipf/gae`, commit 716a46ce579a.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import loop_verdicts, wrong_names
from lintrain.rule import Finding, Level, OddCallRule, Pipeline, Related, one_per_location


class ThresholdOnLogits(OddCallRule):
    level = Level.ERROR
    odd = "0.5 for logits"
    odd_message = "this holds logits, but 0.5 is a threshold of probabilities"
    odd_help = "compare logits with 0, or apply a sigmoid first"
    keywords = "ith_logits|WithLogits"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        losses = loop_verdicts.losses_called(pipeline, "binary_cross_entropy_with_logits")
        # What has passed a sigmoid is compared rightly: the mistake is the second sigmoid, which another rule reports.
        of_probabilities = {each.location for each in losses if any(loop_verdicts.operations_before(each, "sigmoid"))}
        found = (each for each in wrong_names.rounded_logits(pipeline) if each.loss not in of_probabilities)
        yield from one_per_location(map(self._report, found))

    def _report(self, found: wrong_names.RoundedLogits) -> Finding:
        shown = f"`{found.name}`" if len(found.name) <= 24 else "this"
        return self.finding(
            found.location,
            f"{shown} holds logits, but 0.5 is a threshold of probabilities",
            related=[Related(found.loss, "this loss expects logits", "loss")],
            help="compare logits with 0, or apply a sigmoid first",
        )
