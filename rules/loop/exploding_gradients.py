"""The gradients are very large and are not clipped.

With a plain optimizer, a single step with such a gradient changes a layer by many times the size of its weights. The
layer soon outputs NaN. No error is raised.

## Bad

    class MyTrainer(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            outputs = model(**inputs)
            loss = outputs.loss * 1e6
            return (loss, outputs) if return_outputs else loss

    args = TrainingArguments("out", optim="sgd", learning_rate=0.01, max_grad_norm=0.0)
    trainer = MyTrainer(model, args, train_dataset=tokenized["train"], data_collator=collator)  # <- exploding-gradients

## Good

    class MyTrainer(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            outputs = model(**inputs)
            loss = outputs.loss
            return (loss, outputs) if return_outputs else loss

    args = TrainingArguments("out", optim="sgd", learning_rate=0.01, max_grad_norm=0.0)
    trainer = MyTrainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## When it is fine

Clipping (Trainer's `max_grad_norm`, 1.0 by default) limits the step. The gradients of fp16 training are scaled up on
purpose and are judged without the scale. Adaptive optimizers normalize the gradient by its size, and a small learning
rate compensates for a large one: a loss that is summed over pixels is not a mistake.

    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for features, _ in loader:
        optimizer.zero_grad()
        loss = F.mse_loss(100 * net(features), 100 * features, reduction="sum")
        loss.backward()
        optimizer.step()

## Fix

None: gradient clipping, a lower learning rate and a different initialization are all reasonable.

## References

Pascanu, Mikolov, Bengio: On the difficulty of training recurrent neural networks (2013).
"""

from collections.abc import Iterator

from lintrain.rule import Evidence, Finding, Level, Rule, Verdict

HUGE = 1e3
FEWEST_BATCHES = 2
FAR = 10.0
"""Relative size of an update, in multiples of the weights, from which a layer counts as diverging."""


class ExplodingGradients(Rule):
    level = Level.WARNING

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        backward = evidence.backward
        if backward is None or not backward.finite:
            return Verdict.inconclusive("there are no finite gradients")
        smallest, batches = min(backward.norms), len(backward.norms)
        text = f"the gradient norm is at least {smallest:.3g} on {batches} batches"
        if smallest <= HUGE:
            return Verdict.refuted(
                f"the gradient norm is at most {max(backward.norms):.3g} on {batches} batches", norm=smallest
            )
        if backward.clipped_at is not None:
            return Verdict.inconclusive(f"{text}, but it is clipped at {backward.clipped_at:g}", norm=smallest)
        if batches < FEWEST_BATCHES:
            return Verdict.inconclusive(f"{text}, too few to judge", norm=smallest)
        updates = evidence.step.updates if evidence.step else ()
        if not updates:
            return Verdict.inconclusive(f"{text}, but no update of a layer was measured", norm=smallest)
        farthest = max(updates, key=lambda update: update.ratio)
        moves = f"a step changes `{farthest.layer}` by {farthest.ratio:.3g} times its weights"
        if farthest.ratio < FAR:
            return Verdict.inconclusive(f"{text}, but {moves} at most", norm=smallest)
        return Verdict.confirmed(f"{text}, it is not clipped, and {moves}", norm=smallest)

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding, Verdict]]:
        finding = self.finding(
            evidence.location,
            "the gradients are very large and not clipped",
            help="average the loss instead of summing it, check the scale of inputs and targets, or clip the gradients",
        )
        yield from self.if_confirmed(finding, evidence)
