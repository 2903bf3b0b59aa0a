"""Twenty training steps on one repeated batch do not reduce the loss.

A model that can learn at all can overfit a single batch. If it cannot, with dropout disabled and at the configured
learning rate, ten times that rate and a tenth of it, and neither can a new Adam that holds all of its weights at
customary rates, something between the labels and the weights is broken: a detached graph, frozen layers, or labels that
do not match their rows. Checked with `lintrain probe --also overfit`.

## Bad

    class Flat(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            outputs = model(**inputs)
            scores = outputs.logits.detach() + 0 * outputs.logits
            loss = F.cross_entropy(scores, inputs["labels"])
            return (loss, outputs) if return_outputs else loss

    args = TrainingArguments("out", learning_rate=1e-4)
    trainer = Flat(model, args, train_dataset=tokenized["train"], data_collator=collator)  # <- cannot-overfit-batch

## Good

    class Flat(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            outputs = model(**inputs)
            loss = F.cross_entropy(outputs.logits, inputs["labels"])
            return (loss, outputs) if return_outputs else loss

    args = TrainingArguments("out", learning_rate=1e-4)
    trainer = Flat(model, args, train_dataset=tokenized["train"], data_collator=collator)

## When it is fine

Runs in which most of the model is frozen, only adapters are trained, or the loss is contrastive or based on rewards
are not judged. The probe skips warmup and disables dropout for this measurement.

A rate that is too low for a model is another mistake, `low-learning-rate`, and a small model needs more than twenty
steps at the rates of fine-tuning:

    args = TrainingArguments("out", learning_rate=2e-6)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## Fix

None: the probe shows that something prevents the model from learning, not what it is.

## References

Karpathy: A Recipe for Training Neural Networks, "overfit one batch".
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lintrain.rule import Evidence, EvidenceRule, Finding, Level, Verdict
from lintrain.text import show_number, show_share

if TYPE_CHECKING:
    from lintrain.evidence.run import OverfitEvidence

FLAT, FALLS = 0.9, 0.5
FLAT_IN_OWN_LOOP = 0.999
"""Small custom networks and plain SGD converge slowly even when nothing is wrong: only a constant loss is a mistake."""
FEWEST_STEPS = 20
MOSTLY_TRAINABLE = 0.5


class CannotOverfitBatch(EvidenceRule):
    level = Level.WARNING
    message = "the model cannot overfit a single batch"
    help_text = "check the learning rate, frozen layers, the path from labels to loss, and the labels themselves"

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        overfit, model = evidence.overfit, evidence.model
        if overfit is None or not overfit.losses or not overfit.losses_at_ten_times:
            return Verdict.inconclusive("no single batch was trained on (use `--also overfit`)")
        if model is None or model.trainable_parameters < MOSTLY_TRAINABLE * model.parameters:
            return Verdict.inconclusive("most of the model is frozen")
        if not 0 < overfit.losses[0] < math.inf:
            return Verdict.inconclusive(
                f"the first loss is {show_number(overfit.losses[0])}, so its decrease cannot be judged"
            )
        return _judged(overfit, FLAT_IN_OWN_LOOP if evidence.framework != "transformers" else FLAT)


def _judged(overfit: OverfitEvidence, flat: float) -> Verdict:
    first = overfit.losses[0]
    ends = [overfit.losses[-1], overfit.losses_at_ten_times[-1], *overfit.losses_at_a_tenth[-1:]]
    left = [end / first for end in ends]
    text = f"after {overfit.steps} steps, the loss is {_of_the_first(left[0], first)}"
    rates = ("at ten times the learning rate", "at a tenth of it")
    text = ", ".join([text, *(f"{show_share(share)} {rate}" for share, rate in zip(left[1:], rates, strict=False))])
    finite = [share for share in left if math.isfinite(share)]
    if finite and min(finite) < FALLS:
        return Verdict.refuted(text, first=first, last=overfit.losses[-1])
    if overfit.steps < FEWEST_STEPS or overfit.stopped_early:
        return Verdict.inconclusive(f"{text}; {FEWEST_STEPS} complete steps are needed to judge it")
    if not finite or min(finite) <= flat:
        return Verdict.inconclusive(text)
    if overfit.fresh_rate is None:
        return Verdict.inconclusive(f"{text}; 0 other optimizers were tried")
    fresh = overfit.losses_of_fresh[-1] / overfit.losses_of_fresh[0]
    text = f"{text}, and {show_share(fresh)} with a new Adam at {overfit.fresh_rate:g}"
    if fresh > flat:
        return Verdict.confirmed(text, first=first, last=overfit.losses[-1], learning_rate=overfit.learning_rate)
    return Verdict.refuted(f"{text}: the model can learn", first=first, last=overfit.losses[-1], fresh=fresh)


def _of_the_first(share: float, first: float) -> str:
    """A loss relative to the first one."""
    if not math.isfinite(share):
        return f"{show_number(share)}, initially {first:.4g}"
    return f"{show_share(share)}{' of' if share < 10 else ''} the initial {first:.4g}"
