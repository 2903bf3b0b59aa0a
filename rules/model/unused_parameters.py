"""Trainable parameters get no gradient.

On one device they stay as they are, without an error: a branch that was meant to learn does not. Under
DistributedDataParallel the run ends with "Expected to have finished reduction in the prior iteration".

## Bad

    model.projection = nn.Linear(8, 8)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)  # <- unused-parameters

## Good

    model.projection = nn.Linear(8, 8).requires_grad_(False)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## When it is fine

The poolers of BERT-like models are part of their checkpoints and unused under many heads, as are the contact head of
ESM, the global attention of Longformer and the mask embedding of XLNet and Wav2Vec2; experts that no token of a batch
chose and layers that were dropped at random have their turn later. None of these is reported.

## Fix

None: `find_unused_parameters=True` would only hide why they take no part.

## References

pytorch#43259, pytorch#57473. `find_unused_parameters=True` hides the cause.
"""

from collections.abc import Iterator

from lintrain.rule import Evidence, Finding, Level, Rule, Verdict

LEFT_OVER = ("pooler", "contact_head", "query_global", "key_global", "value_global", "mask_emb", "masked_spec_embed")
HARMLESS = (*LEFT_OVER, "answer_class", "expert", "layerdrop", "gate")
FEWEST_BATCHES = 2


class UnusedParameters(Rule):
    level = Level.WARNING

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        backward = evidence.backward
        if backward is None:
            return Verdict.inconclusive(evidence.not_reached("backward"))
        unused = [name for layer in backward.layers for name in layer.without_gradient]
        meant = [name for name in unused if not any(word in name for word in HARMLESS)]
        total = sum(layer.parameters for layer in backward.layers)
        batches = len(backward.norms)
        if not meant:
            return Verdict.refuted(
                f"all of {total} tensors have a gradient, {len(unused)} harmless ones aside", batches=batches
            )
        if batches < FEWEST_BATCHES:
            return Verdict.inconclusive(f"{len(meant)} of {total} tensors had no gradient on the only batch")
        text = f"{len(meant)} of {total} tensors have no gradient on {batches} batches, the first is `{meant[0]}`"
        return Verdict.confirmed(text, parameters=list(meant[:20]), batches=batches)

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding, Verdict]]:
        finding = self.finding(
            evidence.location,
            "trainable parameters take no part in the loss",
            help="use them in `forward`, or take them out (`requires_grad_(False)` where they must stay)",
        )
        yield from self.if_confirmed(finding, evidence)
