"""Twenty steps on one repeated batch do not bring the loss down.

Any model that can learn at all can learn one batch by heart. If it does not, with dropout off, at the learning rate
in force and again at ten times it, something on the way from labels to weights is broken: a detached graph, frozen
layers, a learning rate without effect, labels that do not belong to their rows. Looked at with `lintrain probe
--overfit 20`.

## Bad

    args = TrainingArguments("out", learning_rate=1e-9)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)  # <- cannot-overfit-batch

## Good

    args = TrainingArguments("out", learning_rate=1e-4)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## When it is fine

Most of the model is frozen, or only adapters are trained; the loss is contrastive or made by rewards: such runs are
not judged. Warm-up is skipped and dropout is off while the probe looks.

## References

Karpathy: A Recipe for Training Neural Networks, "overfit one batch".
"""

from collections.abc import Iterator

from lintrain import Evidence, Finding, Level, Rule, Verdict, confirmed, refuted, unsettled

FLAT, FALLS = 0.9, 0.5
FEWEST_STEPS = 20
MOSTLY_TRAINABLE = 0.5


class CannotOverfitBatch(Rule):
    level = Level.WARNING

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        overfit, model = evidence.overfit, evidence.model
        if overfit is None or not overfit.losses or not overfit.losses_at_ten_times:
            return unsettled("one batch was not trained on (`--overfit 20` does)")
        if model is None or model.trainable_parameters < MOSTLY_TRAINABLE * model.parameters:
            return unsettled("most of the model is frozen")
        first = overfit.losses[0]
        at_rate, at_ten = overfit.losses[-1] / first, overfit.losses_at_ten_times[-1] / first
        steps = f"in {overfit.steps} steps"
        text = f"the loss of {first:.4g} goes to {at_rate:.0%} {steps}, to {at_ten:.0%} at ten times the rate"
        if min(at_rate, at_ten) < FALLS:
            return refuted(text, first=first, last=overfit.losses[-1])
        if overfit.steps < FEWEST_STEPS or overfit.stopped_early:
            return unsettled(f"{text}; {FEWEST_STEPS} whole steps are needed to tell")
        if min(at_rate, at_ten) > FLAT:
            return confirmed(text, first=first, last=overfit.losses[-1], learning_rate=overfit.learning_rate)
        return unsettled(text)

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding, Verdict]]:
        finding = self.finding(
            evidence.place,
            "the model does not learn one batch by heart",
            help="check learning rate, frozen layers, the way from labels to loss, and the labels of the rows",
        )
        yield from self.if_confirmed(finding, evidence)
