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
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.model import Model, Task, Tensor
from lintrain.pipeline.values.python import Absent, literal
from lintrain.rule import Finding, Level, OddCallRule, Pipeline, Related, one_per_location


class ThresholdOnLogits(OddCallRule):
    level = Level.ERROR
    odd = "0.5 for logits"
    odd_message = "this holds logits, but 0.5 is a threshold of probabilities"
    odd_help = "compare logits with 0, or apply a sigmoid first"
    keywords = "ith_logits|WithLogits|Classification"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        losses = loop_verdicts.losses_called(pipeline, "binary_cross_entropy_with_logits")
        # What has passed a sigmoid is compared rightly: the mistake is the second sigmoid, which another rule reports.
        of_probabilities = {each.location for each in losses if any(loop_verdicts.operations_before(each, "sigmoid"))}
        found = (each for each in wrong_names.rounded_logits(pipeline) if each.loss not in of_probabilities)
        yield from one_per_location(map(self._report, found))
        yield from one_per_location(
            self._of_head(misuse, misuse.value.model)
            for misuse in pipeline.misuses
            if misuse.use == "logits against 0.5" and isinstance(misuse.value, Tensor)
            if isinstance(misuse.value.model, Model) and _gives_logits(pipeline, misuse.value.model)
        )

    def _of_head(self, found: Misuse, model: Model) -> Finding:
        return self.finding(
            found.location,
            "this holds logits, but 0.5 is a threshold of probabilities",
            related=[Related(model.origin, "returns logits", "loss")] if model.origin else [],
            help="compare logits with 0, or apply a sigmoid first",
        )

    def _report(self, found: wrong_names.RoundedLogits) -> Finding:
        shown = f"`{found.name}`" if len(found.name) <= 24 else "this"
        return self.finding(
            found.location,
            f"{shown} holds logits, but 0.5 is a threshold of probabilities",
            related=[Related(found.loss, "this loss expects logits", "loss")],
            help="compare logits with 0, or apply a sigmoid first",
        )


def _gives_logits(pipeline: Pipeline, model: Model) -> bool:
    """Whether a classifier of texts is certainly trained on a loss that applies the sigmoid or the softmax itself."""
    kind = literal(model.arguments["problem_type"]) if "problem_type" in model.arguments else ""
    if model.attributes.keys() - {"config"}:
        return False  # such as a head of the script's own
    if kind == "multi_label_classification":
        return True
    labels = model.labels_by_default if isinstance(model.num_labels, Absent) else literal(model.num_labels)
    is_sized = isinstance(labels, int) and labels > 1
    # An own loss may be one of numbers, whose targets are 0 and 1.
    has_own_loss = any(run.model is model and "compute_loss" in run.overrides for run in pipeline.runs)
    is_plain = model.is_complete and kind == "" and model.config is None
    return model.task is Task.SEQUENCE_CLASSIFICATION and is_sized and is_plain and not has_own_loss
