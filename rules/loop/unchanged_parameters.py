"""Optimizer steps do not change parameters that have gradients.

The updates are too small for the precision of the weights (bfloat16 has about three significant digits), or the
optimizer does not contain these parameters. The loss may still fall because of the other parameters, and no error is
raised.

## Bad

    model = AutoModelForSequenceClassification.from_pretrained(checkpoint, num_labels=3, dtype=torch.bfloat16)
    args = TrainingArguments("out", learning_rate=1e-5)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)  # <- unchanged-parameters

## Good

    model = AutoModelForSequenceClassification.from_pretrained(checkpoint, num_labels=3)
    args = TrainingArguments("out", learning_rate=1e-5)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## When it is fine

The first warmup step has a learning rate of zero, and the gradient scaler of fp16 training skips steps: the probe steps
at the peak learning rate and ignores skipped steps. Parameters with very small gradients are not judged.

## Fix

None: the probe shows which weights do not change, not why.

## References

transformers documentation, "Model training anatomy": keep weights in float32.
"""

from lintrain.rule import Evidence, EvidenceRule, Finding, Level, Location, Verdict


class UnchangedParameters(EvidenceRule):
    level = Level.WARNING
    message = "optimizer steps do not change trainable parameters"
    help_text = "keep the weights in float32 (with `bf16=True` for speed), and pass all of them to the optimizer"

    def location_of(self, evidence: Evidence) -> Location:
        """Where the optimizer is made, if the weights are in none."""
        step = evidence.step
        is_left_out = step is not None and set(step.unchanged) <= set(step.outside_optimizer)
        return evidence.optimizer_location if is_left_out else evidence.location

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        step = evidence.step
        if step is None:
            return Verdict.inconclusive(evidence.not_reached("step"))
        if evidence.peak_learning_rate == 0 and evidence.framework == "transformers" and not step.skipped:
            return Verdict.confirmed(
                f"the learning rate of all {len(step.groups)} groups is 0", groups=len(step.groups)
            )
        if step.skipped or not evidence.peak_learning_rate:
            return Verdict.inconclusive("no step ran: the scaler skipped it, or the learning rate is zero")
        total = step.trainable_tensors
        unchanged = step.unchanged
        if unchanged:
            text = f"{len(unchanged)} of {total} tensors did not change in 2 steps, the first is `{unchanged[0]}`"
            return Verdict.confirmed(text, parameters=list(unchanged[:20]), learning_rate=evidence.peak_learning_rate)
        if total and not step.changed_tensors:
            return Verdict.inconclusive(
                f"none of {total} tensors changed in 2 steps, but all gradients were too small to judge"
            )
        return Verdict.refuted(
            f"{step.changed_tensors} of {total} tensors changed in 2 steps", changed=step.changed_tensors
        )
