"""The factor of a focal loss is computed from the mean of the losses, so all rows have the same.

A focal loss multiplies the loss of each row by a factor that is small for rows which are easy. If the cross-entropy is
averaged first, its exponential is no probability of a row, and all rows get one factor: hard rows have the same share
of the gradient as in a plain cross-entropy. No error is raised.

## Bad

    for x, y in loader:
        optimizer.zero_grad()
        ce = F.cross_entropy(net(x), y)  # <- averaged-focal-loss
        pt = torch.exp(-ce)
        loss = (1 - pt) ** 2 * ce
        loss.backward()
        optimizer.step()

## Good

    for x, y in loader:
        optimizer.zero_grad()
        ce = F.cross_entropy(net(x), y, reduction="none")
        pt = torch.exp(-ce)
        loss = ((1 - pt) ** 2 * ce).mean()
        loss.backward()
        optimizer.step()

## When it is fine

The exponential of a mean loss is its perplexity:

    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        print(torch.exp(loss), torch.exp(-loss))
        loss.backward()
        optimizer.step()

## Fix

None: the product has to be averaged as well, and where is open.

## References

Lin et al., "Focal Loss for Dense Object Detection", 2017; PyTorch documentation, `torch.nn.functional.cross_entropy`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import focal_losses
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, Source, Targets, one_per_location


class AveragedFocalLoss(Rule):
    level = Level.ERROR
    keywords = "cross_entropy|nll_loss|CrossEntropyLoss|NLLLoss|BCE & exp"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return any(focal_losses.averaged_focal_losses(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(map(self._report, focal_losses.averaged_focal_losses(pipeline.source)))

    def _report(self, found: focal_losses.AveragedFocalLoss) -> Finding:
        return self.finding(
            found.location,
            f"`{found.name}` is a mean, so the focal factor is the same for all rows",
            related=[Related(found.probability, "taken for the probability of each row", "probability")],
            help='pass `reduction="none"`, and average the product',
        )
