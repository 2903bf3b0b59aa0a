"""Twenty steps on one repeated batch do not bring the loss down.

Any model that can learn at all can learn one batch by heart. If it does not, with dropout off, at the learning rate
in force, at ten times it and at a tenth of it, something on the way from labels to weights is broken: a detached
graph, frozen layers, a learning rate without effect, labels that do not belong to their rows. Looked at with
`lintrain probe --also overfit`.

## Bad

    args = TrainingArguments("out", learning_rate=1e-9)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)  # <- cannot-overfit-batch

## Good

    args = TrainingArguments("out", learning_rate=1e-4)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## When it is fine

Most of the model is frozen, or only adapters are trained; the loss is contrastive or made by rewards: such runs are
not judged. Warm-up is skipped and dropout is off while the probe looks.

## Fix

None: a probe shows that something keeps the model from learning, not what.

## References

Karpathy: A Recipe for Training Neural Networks, "overfit one batch".
"""

import math
from collections.abc import Iterator

from lintrain.evidence.run import OverfitEvidence
from lintrain.rule import Evidence, Finding, Level, Rule, Verdict

FLAT, FALLS = 0.9, 0.5
ONES_OWN = 0.999
"""Small networks of one's own, and plain SGD, go down slowly where nothing is wrong: only what stands still is."""
FEWEST_STEPS = 20
MOSTLY_TRAINABLE = 0.5


class CannotOverfitBatch(Rule):
    level = Level.WARNING

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        overfit, model = evidence.overfit, evidence.model
        if overfit is None or not overfit.losses or not overfit.losses_at_ten_times:
            return Verdict.inconclusive("one batch was not trained on (`--also overfit` does)")
        if model is None or model.trainable_parameters < MOSTLY_TRAINABLE * model.parameters:
            return Verdict.inconclusive("most of the model is frozen")
        if not 0 < overfit.losses[0] < math.inf:
            return Verdict.inconclusive(
                f"the first loss is {overfit.losses[0]:.4g}: nothing can be told from how it falls"
            )
        return _judged(overfit, ONES_OWN if evidence.framework != "transformers" else FLAT)

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding, Verdict]]:
        finding = self.finding(
            evidence.location,
            "the model does not learn one batch by heart",
            help="check learning rate, frozen layers, the way from labels to loss, and the labels of the rows",
        )
        yield from self.if_confirmed(finding, evidence)


def _judged(overfit: OverfitEvidence, flat: float) -> Verdict:
    first = overfit.losses[0]
    ends = [overfit.losses[-1], overfit.losses_at_ten_times[-1], *overfit.losses_at_a_tenth[-1:]]
    left = [end / first for end in ends]
    text = f"the loss of {first:.4g} goes to {left[0]:.0%} in {overfit.steps} steps"
    rates = ("at ten times the rate", "at a tenth of it")
    text = ", ".join([text, *(f"to {share:.0%} {rate}" for share, rate in zip(left[1:], rates, strict=False))])
    finite = [share for share in left if math.isfinite(share)]
    if finite and min(finite) < FALLS:
        return Verdict.refuted(text, first=first, last=overfit.losses[-1])
    if overfit.steps < FEWEST_STEPS or overfit.stopped_early:
        return Verdict.inconclusive(f"{text}; {FEWEST_STEPS} whole steps are needed to tell")
    if finite and min(finite) > flat:
        return Verdict.confirmed(text, first=first, last=overfit.losses[-1], learning_rate=overfit.learning_rate)
    return Verdict.inconclusive(text)
