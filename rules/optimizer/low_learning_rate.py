"""The learning rate is so low that the weights do not change.

A step that moves each weight by a ten-millionth of its size changes it by a thousandth in ten thousand steps: the model
stays what it was. The loss hardly falls, and no error is raised.

## Bad

    args = TrainingArguments("out", learning_rate=1e-9)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)  # <- low-learning-rate

## Good

    args = TrainingArguments("out", learning_rate=2e-5)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## When it is fine

A rate that begins at 0 and rises, such as in a warm-up, is judged by its highest value. In a run, adapters that begin
with weights of zero are not judged, nor are steps that find no gradient: no rate moves a weight then.

    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    warm_up = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 1000))
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
        warm_up.step()

## Fix

None: which rate is right depends on the model and on its task.

## References

CS231n, Neural Networks Part 3, "Ratio of weights:updates".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import learning_rates
from lintrain.rule import Evidence, EvidenceRule, Finding, Level, Location, Pipeline, Related, Verdict

LONG_RUN = 10_000
"""Steps of a run that counts as long: a shorter one is judged as if it had so many."""
NOTHING = 1e-3
"""A change of the weights, as a share of them, that makes no other model."""
LOWEST = 1e-8
"""A rate of AdamW up to which no run changes a model: it moves a weight by a ten-thousandth in 10,000 steps."""


class LowLearningRate(EvidenceRule):
    level = Level.WARNING
    keywords = "Trainer"
    message = "the learning rate is too low to change the weights"
    help_text = "take a rate with which a step changes the weights by about a thousandth"
    subject = "learning_rate"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for run in pipeline.runs:
            rate = learning_rates.rate_in_settings(run)
            if rate is not None and 0 < rate.value <= LOWEST:
                yield self.finding(
                    run.construction,
                    self.message,
                    related=[Related(rate.location, f"set to {rate.value:g} here", "rate")],
                    help=self.help_text,
                    subject=self.subject,
                )

    def location_of(self, evidence: Evidence) -> Location:
        return evidence.optimizer_location

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        step, backward, rate = evidence.step, evidence.backward, evidence.peak_learning_rate
        if step is None or backward is None or not step.updates:
            return Verdict.inconclusive(evidence.not_reached("step"))
        if not rate or step.skipped:
            return Verdict.inconclusive(f"the learning rate is {rate or 0.0:g}, or the step was skipped")
        uses = evidence.loop.optimizers if evidence.loop else ()
        if any(use.steps_on_nothing == use.steps > 0 for use in uses):
            return Verdict.inconclusive("the steps of an optimizer found no gradient")
        if backward.finite and not any(backward.norms):
            return Verdict.inconclusive("every gradient is 0, which no learning rate changes")
        zero = [layer for layer in backward.layers if layer.weight_norm == 0.0]
        if zero:
            return Verdict.inconclusive(f"{len(zero)} layers begin with weights of zero")
        steps = max(LONG_RUN, evidence.schedule.steps if evidence.schedule else 0)
        farthest = max(step.updates, key=lambda update: update.ratio)
        text = f"at a learning rate of {rate:g}, a step moves `{farthest.layer}` by {farthest.ratio:.2g} of its weights"
        if farthest.ratio * steps < NOTHING:
            moved = f"{steps:,} steps by less than {farthest.ratio * steps:.2g}"
            return Verdict.confirmed(f"{text}, and {moved}", ratio=farthest.ratio)
        return Verdict.refuted(text, ratio=farthest.ratio)

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        return cause.rule == "equal-rewards"
