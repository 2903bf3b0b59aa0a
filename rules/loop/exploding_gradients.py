"""The gradient is huge, and nothing clips it.

One step of such a gradient throws plain optimizers far off, and soon gives NaN; adaptive ones lose their estimate of
what is usual. No error is raised.

## Bad

    class MyTrainer(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            outputs = model(**inputs)
            loss = outputs.loss * 1e6
            return (loss, outputs) if return_outputs else loss

    args = TrainingArguments("out", max_grad_norm=0.0)
    trainer = MyTrainer(model, args, train_dataset=tokenized["train"], data_collator=collator)  # <- exploding-gradients

## Good

    class MyTrainer(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            outputs = model(**inputs)
            loss = outputs.loss
            return (loss, outputs) if return_outputs else loss

    args = TrainingArguments("out", max_grad_norm=0.0)
    trainer = MyTrainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## When it is fine

Clipping (Trainer's `max_grad_norm`, 1.0 unless set otherwise) bounds the step. The gradients of fp16 training are
scaled up on purpose; they are judged as they are without the scale.

## References

Pascanu, Mikolov, Bengio: On the difficulty of training recurrent neural networks (2013).
"""

from collections.abc import Iterator

from lintrain import Evidence, Finding, Level, Rule, Verdict, confirmed, refuted, unsettled

HUGE = 1e3
FEWEST_BATCHES = 2


class ExplodingGradients(Rule):
    level = Level.WARNING

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        backward = evidence.backward
        if backward is None or not backward.finite:
            return unsettled("there are no finite gradients to judge by")
        smallest, batches = min(backward.norms), len(backward.norms)
        text = f"the gradient norm is {smallest:.3g} or more on {batches} batches"
        if smallest <= HUGE:
            return refuted(
                f"the gradient norm is at most {max(backward.norms):.3g} on {batches} batches", norm=smallest
            )
        if backward.clipped_at is not None:
            return unsettled(f"{text}, and is clipped at {backward.clipped_at:g}", norm=smallest)
        if batches < FEWEST_BATCHES:
            return unsettled(f"{text}, one batch only", norm=smallest)
        return confirmed(f"{text}, and nothing clips it", norm=smallest)

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding, Verdict]]:
        finding = self.finding(
            evidence.place,
            "the gradients are huge",
            help="take means instead of sums in the loss, look at the scale of inputs and targets, clip the gradients",
        )
        yield from self.if_confirmed(finding, evidence)
